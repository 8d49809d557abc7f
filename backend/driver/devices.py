"""Which devices does JAX see? The slice's cores with their memories, and what they say about themselves."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from backend.driver import handles, lasting
from backend.driver.cells import USER_DATA_WORDS
from backend.driver.native import GET_USER_DATA, NOTHING
from backend.driver.session import Session
from backend.driver.slots import slot
from backend.driver.structs import MemoryFunctions, address_of
from backend.link.messages import Core

_log = logging.getLogger(__name__)

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class Memory(handles.Droppable):
    """One memory of one core: its HBM, or its host's memory."""

    def __init__(self, device: Device, kind_id: int) -> None:
        self.device = device
        self.kind_id = kind_id
        self.kind = MEMORY_KINDS[kind_id]
        self.id = device.core.id * len(MEMORY_KINDS) + kind_id
        self.user_data = (ctypes.c_void_p * USER_DATA_WORDS)()
        facts = (*lasting.text(self.kind), ctypes.addressof(self.user_data))
        self.handle = handles.new(self, _FUNCTIONS, immortal=True, facts=facts)
        self.place = (ctypes.c_void_p * 2)(device.handle, self.handle)
        self.label = f"{self.kind}(id={self.id}, core={device.core.id})"


class Device(handles.Droppable):
    """One TensorCore. ``local_id`` counts this process's own; None for one that belongs to another process."""

    def __init__(self, session: Session, core: Core, local_id: int | None) -> None:
        self.session = session
        self.core = core
        self.local_id = local_id
        self.handle = handles.new(self, immortal=True)
        self.description = handles.new(self, immortal=True)
        self.memories = [Memory(self, kind_id) for kind_id in range(len(MEMORY_KINDS))]
        coords = ",".join(map(str, core.coords))
        self.label = f"TPU_{core.id}(process={core.process_index},({coords},{core.core_on_chip}))"
        self.attributes = lasting.named_values(
            {
                "coords": core.coords,
                "core_on_chip": core.core_on_chip,
                "slice_index": core.slice_index,
                "num_cores": session.welcome.tensor_cores,
                "memory_space_count": len(MEMORY_KINDS),
            }
        )
        self.memory_handles = lasting.pointers([memory.handle for memory in self.memories])
        self.own_handle = lasting.pointers([self.handle])

    @property
    def is_addressable(self) -> bool:
        """Whether it is this process's own."""
        return self.local_id is not None


def _set_user_data(memory: int, key: int, data: int, destructor: int) -> None:
    """Memories live as long as the process: no destructor is due. A null key ends the table."""
    table = handles.resolve(memory).user_data
    for place in range(0, len(table) - 2, 2):
        if table[place] in (key, None):
            table[place + 1] = data
            table[place] = key
            return
    _log.error("a memory has no room for more user data")


_set = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(_set_user_data)
_functions = MemoryFunctions(ctypes.sizeof(MemoryFunctions), None, 8, GET_USER_DATA, address_of(_set))
_FUNCTIONS = ctypes.addressof(_functions)


@slot("PJRT_DeviceDescription_Id")
def _id(args: Any) -> None:
    args.id = handles.resolve(args.device_description).core.id


@slot("PJRT_DeviceDescription_ProcessIndex")
def _process_index(args: Any) -> None:
    args.process_index = handles.resolve(args.device_description).core.process_index


@slot("PJRT_DeviceDescription_Attributes")
def _description_attributes(args: Any) -> None:
    args.attributes, args.num_attributes = handles.resolve(args.device_description).attributes


@slot("PJRT_DeviceDescription_Kind")
def _kind(args: Any) -> None:
    device = handles.resolve(args.device_description)
    args.device_kind, args.device_kind_size = lasting.text(device.session.welcome.device_kind)


@slot("PJRT_DeviceDescription_DebugString")
def _debug_string(args: Any) -> None:
    args.debug_string, args.debug_string_size = lasting.text(handles.resolve(args.device_description).label)


@slot("PJRT_DeviceDescription_ToString")
def _to_string(args: Any) -> None:
    args.to_string, args.to_string_size = lasting.text(handles.resolve(args.device_description).label)


@slot("PJRT_Device_GetDescription")
def _description(args: Any) -> None:
    args.device_description = handles.resolve(args.device).description


@slot("PJRT_Device_GetAttributes")
def _attributes(args: Any) -> None:
    args.attributes, args.num_attributes = handles.resolve(args.device).attributes
    args.device_attributes, args.attributes_deleter = args.device, NOTHING


@slot("PJRT_Device_IsAddressable")
def _is_addressable(args: Any) -> None:
    args.is_addressable = handles.resolve(args.device).is_addressable


@slot("PJRT_Device_LocalHardwareId")
def _local_hardware_id(args: Any) -> None:
    local_id = handles.resolve(args.device).local_id
    args.local_hardware_id = -1 if local_id is None else local_id


@slot("PJRT_Device_AddressableMemories")
def _memories(args: Any) -> None:
    args.memories, args.num_memories = handles.resolve(args.device).memory_handles


@slot("PJRT_Device_DefaultMemory")
def _default_memory(args: Any) -> None:
    args.memory = handles.resolve(args.device).memories[0].handle


@slot("PJRT_Device_MemoryStats")
def _memory_stats(args: Any) -> None:
    _clear_results(args)
    device = handles.resolve(args.device)
    stats = device.session.memory_stats(device.core.id)
    args.bytes_in_use = stats.bytes_in_use
    for field, value in (
        ("peak_bytes_in_use", stats.peak_bytes),
        ("bytes_limit", stats.limit_bytes),
        ("num_allocs", stats.allocations),
        ("largest_alloc_size", stats.largest_bytes),
        ("largest_free_block_bytes", stats.limit_bytes - stats.bytes_in_use),
        ("bytes_reserved", 0),
        ("peak_bytes_reserved", 0),
    ):
        setattr(args, field, value)
        setattr(args, f"{field}_is_set", True)


def _clear_results(args: Any) -> None:
    """Zero what follows the device: jaxlib passes the struct uninitialised."""
    start = type(args).device.offset + type(args).device.size
    ctypes.memset(ctypes.addressof(args) + start, 0, args.struct_size - start)


@slot("PJRT_Memory_Id")
def _memory_id(args: Any) -> None:
    args.id = handles.resolve(args.memory).id


@slot("PJRT_Memory_Kind_Id")
def _memory_kind_id(args: Any) -> None:
    args.kind_id = handles.resolve(args.memory).kind_id


@slot("PJRT_Memory_DebugString")
def _memory_debug_string(args: Any) -> None:
    args.debug_string, args.debug_string_size = lasting.text(handles.resolve(args.memory).label)


@slot("PJRT_Memory_ToString")
def _memory_to_string(args: Any) -> None:
    args.to_string, args.to_string_size = lasting.text(handles.resolve(args.memory).label)


@slot("PJRT_Memory_AddressableByDevices")
def _addressable_by(args: Any) -> None:
    args.devices, args.num_devices = handles.resolve(args.memory).device.own_handle
