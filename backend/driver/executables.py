"""What is a compiled program to JAX? Compile, and everything that can be asked about an executable."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from backend.driver import handles, lasting
from backend.driver.buffers import TYPE_NUMBERS
from backend.driver.client import Client
from backend.driver.devices import MEMORY_KINDS
from backend.driver.inspections import tell
from backend.driver.native import NOTHING
from backend.driver.saved import restore, save
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS
from backend.errors import Unavailable, Unimplemented
from backend.link.dtypes import DTYPES
from backend.link.messages import Compiled


class Executable:
    """A program loaded on the slice, behind any number of PJRT handles; unloaded with the last one."""

    def __init__(self, client: Client, number: int, compiled: Compiled, options: bytes, fingerprint: str) -> None:
        self.client = client
        self.number = number
        self.compiled = compiled
        self.options = options
        self.deleted = False
        self.fingerprint = fingerprint
        self.positions = [
            position for position, device in enumerate(compiled.device_ids) if client.devices[device].is_addressable
        ]
        """Where this process's own devices are in the device assignment."""
        self.devices = [client.devices[compiled.device_ids[position]] for position in self.positions]
        self.result_types = [(tuple(result.shape), DTYPES[result.dtype]) for result in compiled.results]
        self.result_memories = [MEMORY_KINDS.index(kind) for kind in compiled.result_memories] or [0] * len(
            compiled.results
        )
        """Which of a device's memories each result lies in."""
        self.result_layouts = [
            None if order == sorted(order, reverse=True) else tuple(order) for order in compiled.result_layouts
        ]
        """Dimensions of each result from minor to major; None for row-major."""
        self.donated = frozenset(compiled.donated)
        self._handles = 0
        self.kept = lasting.Kept()
        """What C++ may point at until the last handle is destroyed."""

    def new_handle(self) -> int:
        self._handles += 1
        compiled = self.compiled
        return handles.new(self, facts=(len(compiled.results), compiled.num_partitions, compiled.num_replicas))

    def dropped(self) -> None:
        self._handles -= 1
        if not self._handles:
            self.delete()

    def delete(self) -> None:
        if not self.deleted:
            self.deleted = True
            try:
                self.client.session.unload(self.number)
            except Unavailable:
                return  # with the slice gone, nothing is loaded any more

    @cached_property
    def places(self) -> list[int]:
        """For each kind of memory the address of device and memory of each device's, one after the other."""
        return [
            self.kept.array(
                ctypes.c_void_p,
                [handle for device in self.devices for handle in (device.handle, device.memories[kind].handle)],
            )[0]
            for kind in range(len(MEMORY_KINDS))
        ]

    @cached_property
    def device_handles(self) -> tuple[int, int]:
        return self.kept.array(ctypes.c_void_p, [device.handle for device in self.devices])

    @cached_property
    def logical_ids(self) -> tuple[int, int]:
        """Pairs of replica and partition, one a device."""
        partitions = self.compiled.num_partitions
        flat = [number for position in self.positions for number in divmod(position, partitions)]
        return self.kept.array(ctypes.c_int32, flat)[0], len(self.devices)

    @cached_property
    def output_types(self) -> tuple[int, int]:
        return self.kept.array(ctypes.c_int32, [TYPE_NUMBERS[dtype] for _, dtype in self.result_types])

    @cached_property
    def output_dims(self) -> tuple[int, int]:
        """Addresses of all dimensions in a row, and of how many each output has."""
        dims = [dim for shape, _ in self.result_types for dim in shape]
        ranks = [len(shape) for shape, _ in self.result_types]
        return self.kept.array(ctypes.c_int64, dims)[0], self.kept.array(ctypes.c_size_t, ranks)[0]

    @cached_property
    def output_memory_kinds(self) -> tuple[int, int]:
        return self._memory_kinds(self.compiled.result_memories or ["device"] * len(self.compiled.results))

    @cached_property
    def parameter_memory_kinds(self) -> tuple[int, int]:
        return self._memory_kinds(self.compiled.argument_memories or ["device"] * len(self.compiled.parameters))

    def _memory_kinds(self, kinds: Sequence[str]) -> tuple[int, int]:
        """Addresses of the texts in a row, and of their sizes."""
        texts = [lasting.text(kind) for kind in kinds]
        addresses, sizes = [address for address, _ in texts], [size for _, size in texts]
        return self.kept.array(ctypes.c_void_p, addresses)[0], self.kept.array(ctypes.c_size_t, sizes)[0]

    @cached_property
    def device_assignment(self) -> bytes:
        """xla.DeviceAssignmentProto: replica_count = 1, computation_count = 2, computation_devices = 3."""
        replicas, partitions = self.compiled.num_replicas, self.compiled.num_partitions
        proto = _field(1, replicas) + _field(2, partitions)
        for partition in range(partitions):
            ids = b"".join(_varint(device) for device in self.compiled.device_ids[partition::partitions])
            computation = _bytes_field(1, ids)
            proto += _bytes_field(3, computation)
        return proto

    @cached_property
    def cost(self) -> tuple[int, int]:
        return self.kept.named_values(
            {
                "flops": self.compiled.flops,
                "transcendentals": self.compiled.transcendentals,
                "bytes accessed": self.compiled.bytes_accessed,
            }
        )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(tag: int, number: int) -> bytes:
    return _varint(tag << 3) + _varint(number)


def _bytes_field(tag: int, content: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(content)) + content


@slot("PJRT_Client_Compile")
def _compile(args: Any) -> None:
    handles.sweep()
    client: Client = handles.resolve(args.client)
    program = STRUCTS["PJRT_Program"].from_address(args.program)
    form = ctypes.string_at(program.format, program.format_size).decode()
    if form != "mlir":
        raise Unimplemented(f'programs of format "{form}" are not supported; this device compiles StableHLO ("mlir")')
    module = ctypes.string_at(program.code, program.code_size)
    options = ctypes.string_at(args.compile_options, args.compile_options_size)
    fingerprint = hashlib.sha256(module + options).hexdigest()
    args.executable = _load(client, module, options, fingerprint).new_handle()


def _load(client: Client, module: bytes, options: bytes, fingerprint: str) -> Executable:
    """Compile on the slice. Raises TpuError."""
    number = client.session.new_numbers()
    compiled = client.session.compile(number, module, options, fingerprint)
    tell(compiled.inspections, module)
    return Executable(client, number, compiled, options, fingerprint)


@slot("PJRT_LoadedExecutable_GetExecutable")
def _get_executable(args: Any) -> None:
    args.executable = handles.resolve(args.loaded_executable).new_handle()


@slot("PJRT_LoadedExecutable_Delete")
def _delete(args: Any) -> None:
    handles.resolve(args.executable).delete()


@slot("PJRT_LoadedExecutable_IsDeleted")
def _is_deleted(args: Any) -> None:
    args.is_deleted = handles.resolve(args.executable).deleted


@slot("PJRT_LoadedExecutable_AddressableDevices")
def _devices(args: Any) -> None:
    args.addressable_devices, args.num_addressable_devices = handles.resolve(args.executable).device_handles


@slot("PJRT_LoadedExecutable_AddressableDeviceLogicalIds")
def _logical_ids(args: Any) -> None:
    address, count = handles.resolve(args.executable).logical_ids
    args.addressable_device_logical_ids, args.num_addressable_device_logical_ids = address, count


@slot("PJRT_LoadedExecutable_GetDeviceAssignment")
def _device_assignment(args: Any) -> None:
    executable = handles.resolve(args.executable)
    text = executable.kept.text(executable.device_assignment)
    args.serialized_bytes, args.serialized_bytes_size = text
    args.serialized_device_assignment, args.serialized_device_assignment_deleter = text[0], NOTHING


@slot("PJRT_Executable_GetCompileOptions")
def _compile_options(args: Any) -> None:
    executable = handles.resolve(args.executable)
    text = executable.kept.text(executable.options)
    args.serialized_bytes, args.serialized_bytes_size = text
    args.serialized_compile_options, args.serialized_compile_options_deleter = text[0], NOTHING


@slot("PJRT_Executable_Name")
def _name(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.executable_name, args.executable_name_size = executable.kept.text(executable.compiled.name)


@slot("PJRT_Executable_SizeOfGeneratedCodeInBytes")
def _code_size(args: Any) -> None:
    args.size_in_bytes = handles.resolve(args.executable).compiled.code_bytes


@slot("PJRT_Executable_Fingerprint")
@slot("PJRT_LoadedExecutable_Fingerprint")
def _fingerprint(args: Any) -> None:
    executable = handles.resolve(args.executable)
    text = executable.kept.text(executable.fingerprint)
    args.executable_fingerprint, args.executable_fingerprint_size = text


@slot("PJRT_Executable_OutputElementTypes")
def _output_types(args: Any) -> None:
    args.output_types, args.num_output_types = handles.resolve(args.executable).output_types


@slot("PJRT_Executable_OutputDimensions")
def _output_dimensions(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.num_outputs = len(executable.compiled.results)
    args.dims, args.dim_sizes = executable.output_dims


@slot("PJRT_Executable_OutputMemoryKinds")
def _output_memory_kinds(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.num_outputs = len(executable.compiled.results)
    args.memory_kinds, args.memory_kind_sizes = executable.output_memory_kinds


@slot("PJRT_Executable_ParameterMemoryKinds")
def _parameter_memory_kinds(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.num_parameters = len(executable.compiled.parameters)
    args.memory_kinds, args.memory_kind_sizes = executable.parameter_memory_kinds


@slot("PJRT_Executable_OptimizedProgram")
def _optimized_program(args: Any) -> None:
    program = STRUCTS["PJRT_Program"].from_address(args.program)
    module = handles.resolve(args.executable).compiled.optimized_module
    program.format, program.format_size = lasting.text("mlir")
    if program.code:
        ctypes.memmove(program.code, module, len(module))
    program.code_size = len(module)


@slot("PJRT_Executable_GetCostAnalysis")
def _cost_analysis(args: Any) -> None:
    args.properties, args.num_properties = handles.resolve(args.executable).cost


@slot("PJRT_Executable_GetCompiledMemoryStats")
def _memory_stats(args: Any) -> None:
    compiled = handles.resolve(args.executable).compiled
    start = type(args).executable.offset + type(args).executable.size
    ctypes.memset(ctypes.addressof(args) + start, 0, args.struct_size - start)
    args.generated_code_size_in_bytes = compiled.code_bytes
    args.argument_size_in_bytes = compiled.argument_bytes
    args.output_size_in_bytes = compiled.output_bytes
    args.alias_size_in_bytes = compiled.alias_bytes
    args.temp_size_in_bytes = compiled.temp_bytes


@slot("PJRT_Executable_Serialize")
def _serialize(args: Any) -> None:
    executable = handles.resolve(args.executable)
    compiled = executable.compiled
    welcome = executable.client.session.welcome
    data = save(compiled.name, compiled.optimized_module, executable.options, executable.fingerprint, welcome)
    text = executable.kept.text(data)
    args.serialized_bytes, args.serialized_bytes_size = text
    args.serialized_executable, args.serialized_executable_deleter = text[0], NOTHING


@slot("PJRT_Executable_DeserializeAndLoad")
def _deserialize(args: Any) -> None:
    handles.sweep()
    client: Client = handles.resolve(args.client)
    data = ctypes.string_at(args.serialized_executable, args.serialized_executable_size)
    saved = restore(data, client.session.welcome)
    options = saved.options
    if args.overridden_serialized_compile_options_size:
        options = ctypes.string_at(
            args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size
        )
    args.loaded_executable = _load(client, saved.module, options, saved.fingerprint).new_handle()
