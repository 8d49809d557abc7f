"""What is a jax.Array's memory on a core? PJRT buffers, and their way to the slice and back."""

from __future__ import annotations

import ctypes
import math
import operator
from itertools import accumulate
from typing import Any

import numpy as np

from backend.driver import abi, handles
from backend.driver.columns import Buffer, Column
from backend.driver.devices import Memory
from backend.driver.events import READY, ready_event
from backend.driver.replicas import sent_before
from backend.driver.session import Session
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS
from backend.errors import FailedPrecondition, ResourceExhausted, Unimplemented
from backend.link.dtypes import DTYPES
from backend.link.messages import POSITIONS, Copy, Put

_TYPES = {index: DTYPES[name] for index, name in enumerate(abi.BUFFER_TYPES) if name in DTYPES}
TYPE_NUMBERS = {dtype: index for index, dtype in _TYPES.items()}
_TILED, _STRIDES = 0, 1
_ADDRESS_SHIFT = 12


_row = (ctypes.c_void_p * 1)()
_rows = (ctypes.c_void_p * 1)(ctypes.addressof(_row))
_ROWS = ctypes.addressof(_rows)


def new_buffer(
    memory: Memory,
    number: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    sequence: int,
    layout: tuple[int, ...] | None = None,
) -> int:
    """The handle of a buffer that is a column of its own, ready after the operation ``sequence``."""
    session: Session = memory.device.session
    column = Column(session, number, 1, shape, dtype, sequence, layout=layout)
    column.fill(ctypes.addressof(memory.place), _ROWS, 0)
    handle = _row[0]
    assert handle is not None  # noqa: S101
    session.follow(column)
    return handle


def require_alive(buffer: Buffer) -> None:
    """Raises FailedPrecondition if the buffer was deleted or donated."""
    if buffer.deleted:
        raise FailedPrecondition("the buffer has been deleted or donated")


def host_array(address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
    """The host memory at ``address`` as an array; ``strides`` in bytes, None for row-major."""
    if strides is None:
        size = math.prod(shape) * dtype.itemsize
        return np.ndarray(shape, dtype, _memory(address, size))
    reach = [stride * (dim - 1) for stride, dim in zip(strides, shape, strict=True)]
    below = sum(min(0, step) for step in reach)
    size = sum(max(0, step) for step in reach) + dtype.itemsize - below
    return np.ndarray(shape, dtype, _memory(address + below, size), -below, strides)


def _row_major(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps."""
    return tuple(accumulate(reversed(shape[1:]), operator.mul, initial=itemsize))[::-1] if shape else ()


def _memory(address: int, size: int) -> memoryview[int]:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


@slot("PJRT_Client_BufferFromHostBuffer")
def _from_host(args: Any) -> None:
    handles.sweep()
    dtype = _dtype(args.type)
    shape = _int64s(args.dims, args.num_dims)
    strides = _int64s(args.byte_strides, args.num_byte_strides) if args.num_byte_strides else None
    memory = handles.resolve(args.memory) if args.memory else handles.resolve(args.device).memories[0]
    size = math.prod(shape) * dtype.itemsize
    address, source = args.data, None
    if size and strides is not None and strides != _row_major(shape, dtype.itemsize):
        source = np.ascontiguousarray(host_array(address, shape, strides, dtype))
        address = source.ctypes.data
    args.buffer = upload(memory, shape, dtype, address if size else 0)
    args.done_with_host_buffer = READY


def upload(memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any], address: int) -> int:
    """The handle of a new buffer with the row-major data at ``address``, which is free again at return.

    Raises TpuError.
    """
    session = memory.device.session
    size = math.prod(shape) * dtype.itemsize
    if memory.kind == "device" and size > session.welcome.hbm_bytes:
        raise ResourceExhausted(
            f"Error allocating device buffer: Attempting to allocate {size} bytes. That was not possible. The core has "
            f"{session.welcome.hbm_bytes} bytes of HBM; for {dtype}{list(shape)} on core {memory.device.core.id}"
        )
    number = session.new_numbers()
    buffer = number * POSITIONS
    core, kind, name, dims = memory.device.core.id, memory.kind, dtype.name, list(shape)
    if size and (source := sent_before(core, buffer)) is not None:
        sequence = session.submit_soon(
            lambda sequence: Copy(sequence, source, buffer, core, kind)  # type: ignore[arg-type]
        )
    else:
        sequence = session.upload(
            lambda sequence, data: Put(sequence, buffer, core, kind, name, dims, data),  # type: ignore[arg-type]
            buffer,
            address,
            size,
        )
    return new_buffer(memory, number, shape, dtype, sequence)


@slot("PJRT_Buffer_ToHostBuffer")
def _to_host(args: Any) -> None:
    buffer: Buffer = handles.resolve(args.src)
    if not args.dst:
        args.dst_size = buffer.nbytes
        return
    require_alive(buffer)
    column, number = buffer.column, buffer.number
    order = _host_order(args.host_layout, len(column.shape)) if args.host_layout else None
    if order is None:
        sequence = column.session.download(number, args.dst, buffer.nbytes)
    else:
        staging = np.empty(column.shape, column.dtype)
        target = host_array(args.dst, tuple(column.shape[axis] for axis in order), None, column.dtype)
        sequence = column.session.download(
            number, staging.ctypes.data, buffer.nbytes, lambda: np.copyto(target, staging.transpose(order))
        )
    args.event = ready_event(column.session, sequence)


def _host_order(layout: int, rank: int) -> tuple[int, ...] | None:
    """Major-to-minor order of the axes that the host wants; None if it is row-major. Raises Unimplemented."""
    wanted = STRUCTS["PJRT_Buffer_MemoryLayout"].from_address(layout)
    if wanted.type == _STRIDES:
        raise Unimplemented("copying a buffer to the host with strides is not supported")
    order = _int64s(wanted.u[2], wanted.u[3])[::-1]
    return None if order == tuple(range(rank)) else order


@slot("PJRT_Buffer_CopyToDevice")
def _copy_to_device(args: Any) -> None:
    args.dst_buffer = _copy(handles.resolve(args.buffer), handles.resolve(args.dst_device).memories[0])


@slot("PJRT_Buffer_CopyToMemory")
def _copy_to_memory(args: Any) -> None:
    args.dst_buffer = _copy(handles.resolve(args.buffer), handles.resolve(args.dst_memory))


def _copy(source: Buffer, memory: Memory) -> int:
    require_alive(source)
    column = source.column
    number, core = column.session.new_numbers(), memory.device.core.id
    sequence = column.session.submit(
        lambda sequence: Copy(sequence, source.number, number * POSITIONS, core, memory.kind)  # type: ignore[arg-type]
    )
    layout = column.layout if memory.kind != "unpinned_host" else None
    return new_buffer(memory, number, column.shape, column.dtype, sequence, layout)


@slot("PJRT_Buffer_Delete")
def _delete(args: Any) -> None:
    handles.resolve(args.buffer).delete()


@slot("PJRT_Buffer_ReadyEvent")
def _ready_event(args: Any) -> None:
    buffer = handles.resolve(args.buffer)
    args.event = ready_event(buffer.column.session, buffer.column.sequence)


@slot("PJRT_Buffer_ElementType")
def _element_type(args: Any) -> None:
    args.type = TYPE_NUMBERS[handles.resolve(args.buffer).column.dtype]


@slot("PJRT_Buffer_Dimensions")
def _dimensions(args: Any) -> None:
    args.dims, args.num_dims = handles.resolve(args.buffer).column.dims


@slot("PJRT_Buffer_UnpaddedDimensions")
def _unpadded_dimensions(args: Any) -> None:
    args.unpadded_dims, args.num_dims = handles.resolve(args.buffer).column.dims


_no_dimensions = (ctypes.c_size_t * 1)()


@slot("PJRT_Buffer_DynamicDimensionIndices")
def _dynamic_dimensions(args: Any) -> None:
    args.dynamic_dim_indices, args.num_dynamic_dims = ctypes.addressof(_no_dimensions), 0


_layouts: dict[tuple[int, ...], Any] = {}


@slot("PJRT_Buffer_GetMemoryLayout")
def _memory_layout(args: Any) -> None:
    column = handles.resolve(args.buffer).column
    rank = len(column.shape)
    layout = column.layout or tuple(reversed(range(rank)))
    order = _layouts.setdefault(layout, (ctypes.c_int64 * max(1, rank))(*layout))
    tiled = STRUCTS["PJRT_Buffer_MemoryLayout_Tiled"]
    args.layout.type = _TILED
    args.layout.u[:] = (ctypes.sizeof(tiled), 0, ctypes.addressof(order), rank, 0, 0, 0)


@slot("PJRT_Buffer_OnDeviceSizeInBytes")
def _on_device_size(args: Any) -> None:
    args.on_device_size_in_bytes = handles.resolve(args.buffer).nbytes


@slot("PJRT_Buffer_IsOnCpu")
def _is_on_cpu(args: Any) -> None:
    args.is_on_cpu = False


@slot("PJRT_Buffer_UnsafePointer")
def _unsafe_pointer(args: Any) -> None:
    """A number that no other buffer has, of the form of an address on the device; nothing can be read there."""
    args.buffer_pointer = handles.resolve(args.buffer).number << _ADDRESS_SHIFT


@slot("PJRT_Buffer_IncreaseExternalReferenceCount")
@slot("PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
def _no_pointer(args: Any) -> None:
    raise Unimplemented(
        "the memory of this device cannot be shared with other libraries (dlpack, __array_interface__); "
        "copy the array to the host with np.asarray or jax.device_get"
    )


def _dtype(number: int) -> np.dtype[Any]:
    try:
        return _TYPES[number]
    except KeyError:
        raise Unimplemented(f"element type {abi.BUFFER_TYPES[number]} is not supported on this device") from None


def _int64s(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()
