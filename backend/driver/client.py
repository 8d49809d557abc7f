"""What does JAX ask of the slice as a whole? The PJRT client, and the topology it describes."""

from __future__ import annotations

import ctypes
import itertools
import os
import zlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from backend.driver import handles, lasting
from backend.driver.devices import Device
from backend.driver.membership import membership
from backend.driver.session import Session
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS
from backend.errors import InvalidArgument, Unavailable
from backend.link.client import Connection

PLATFORM = "tpu"


def platform_version() -> str:
    """What jax.devices()[0].client.platform_version shows."""
    return f"tpuctl {version('tpuctl')}: emulated Cloud TPU"


class Client(handles.Droppable):
    """The slice as JAX sees it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.process = session.process
        own = itertools.count()
        listed = [
            Device(session, core, next(own) if core.process_index == self.process else None)
            for core in session.welcome.cores
        ]
        self.devices = sorted(listed, key=lambda device: device.core.id)
        """By id; jax.devices() has them in the order of the welcome."""
        self.own_devices = [device for device in listed if device.is_addressable]
        self.device_handles = lasting.pointers([device.handle for device in listed])
        self.own_device_handles = lasting.pointers([device.handle for device in self.own_devices])
        self.descriptions = lasting.pointers([device.description for device in listed])
        self.memory_handles = lasting.pointers(
            [memory.handle for device in self.own_devices for memory in device.memories]
        )
        self.handle = handles.new(self, immortal=True)


def attach(node: int = 0, nodes: int = 1) -> Session:
    """A session on the slice that the environment names, for process ``node`` of ``nodes`` if it doesn't name another.

    Raises TpuError with what to do.
    """
    address = os.environ["TPUCTL_SLICE"]
    member = membership(node, nodes)
    try:
        connection = Connection(
            address,
            "driver",
            os.environ.get("TPUCTL_JOB", ""),
            os.environ.get("TPUCTL_SLICE_TOKEN", ""),
            process=member.process,
            processes=member.processes,
            notice_seconds=member.notice_seconds,
            timeout_seconds=member.timeout_seconds,
        )
    except Unavailable as error:
        raise Unavailable(
            f"{error.message}. TPUCTL_SLICE names a slice that is not running; `tpuctl list slices` shows those that "
            "are, `tpuctl attach NAME` prints their environment"
        ) from error
    return Session(connection, member.process, member.processes)


clients: list[Client] = []


@slot("PJRT_Plugin_Initialize")
def _initialize(args: Any) -> None:
    return


@slot("PJRT_Plugin_Attributes")
def _plugin_attributes(args: Any) -> None:
    args.attributes, args.num_attributes = lasting.named_values({})


@slot("PJRT_Client_Create")
def _create(args: Any) -> None:
    options = _options(args.create_options, args.num_options)
    client = Client(attach(options.get("node_id", 0), options.get("num_nodes", 1)))
    clients.append(client)
    args.client = client.handle


def _options(address: int, count: int) -> dict[str, int]:
    """The numbers among what JAX says to a new client: node_id and num_nodes, after jax.distributed.initialize."""
    kind = STRUCTS["PJRT_NamedValue"]
    values = (kind * count).from_address(address) if count else ()
    return {
        ctypes.string_at(value.name, value.name_size).decode(): ctypes.c_int64(value.value).value
        for value in values
        if value.type == lasting.INT64
    }


@slot("PJRT_Client_Destroy")
def _destroy(args: Any) -> None:
    client = handles.resolve(args.client)
    client.session.close()
    clients.remove(client)


@slot("PJRT_Client_PlatformName")
@slot("PJRT_TopologyDescription_PlatformName")
def _platform_name(args: Any) -> None:
    args.platform_name, args.platform_name_size = lasting.text(PLATFORM)


@slot("PJRT_Client_PlatformVersion")
@slot("PJRT_TopologyDescription_PlatformVersion")
def _platform_version(args: Any) -> None:
    args.platform_version, args.platform_version_size = lasting.text(platform_version())


@slot("PJRT_Client_ProcessIndex")
def _process_index(args: Any) -> None:
    args.process_index = handles.resolve(args.client).process


@slot("PJRT_Client_Devices")
def _devices(args: Any) -> None:
    args.devices, args.num_devices = handles.resolve(args.client).device_handles


@slot("PJRT_Client_AddressableDevices")
def _addressable_devices(args: Any) -> None:
    args.addressable_devices, args.num_addressable_devices = handles.resolve(args.client).own_device_handles


@slot("PJRT_Client_LookupDevice")
def _lookup_device(args: Any) -> None:
    args.device = _device(handles.resolve(args.client).devices, args.id, "the slice").handle


@slot("PJRT_Client_LookupAddressableDevice")
def _lookup_addressable_device(args: Any) -> None:
    devices = handles.resolve(args.client).own_devices
    args.addressable_device = _device(devices, args.local_hardware_id, "this process").handle


def _device(devices: Sequence[Device], number: int, owner: str) -> Device:
    if not 0 <= number < len(devices):
        raise InvalidArgument(f"{owner} has no device {number}, only 0 to {len(devices) - 1}")
    return devices[number]


@slot("PJRT_Client_AddressableMemories")
def _memories(args: Any) -> None:
    args.addressable_memories, args.num_addressable_memories = handles.resolve(args.client).memory_handles


@slot("PJRT_Client_TopologyDescription")
def _topology(args: Any) -> None:
    args.topology = args.client


@slot("PJRT_Client_UpdateGlobalProcessInfo")
def _update_global_process_info(args: Any) -> None:
    return


@slot("PJRT_Client_DefaultDeviceAssignment")
def _default_device_assignment(args: Any) -> None:
    count = args.num_replicas * args.num_partitions
    client = handles.resolve(args.client)
    devices = client.own_devices if count <= len(client.own_devices) else client.devices
    if count > len(devices):
        raise InvalidArgument(f"{count} devices asked for, but the slice has {len(devices)}")
    assignment = (ctypes.c_int32 * count).from_address(args.default_assignment)
    assignment[:] = [device.core.id for device in devices[:count]]


@slot("PJRT_TopologyDescription_GetDeviceDescriptions")
def _descriptions(args: Any) -> None:
    args.descriptions, args.num_descriptions = handles.resolve(args.topology).descriptions


@slot("PJRT_TopologyDescription_Attributes")
def _topology_attributes(args: Any) -> None:
    args.attributes, args.num_attributes = lasting.named_values({})


@slot("PJRT_TopologyDescription_Fingerprint")
def _fingerprint(args: Any) -> None:
    welcome = handles.resolve(args.topology).session.welcome
    args.fingerprint = zlib.crc32(f"{welcome.device_kind} {welcome.type} {platform_version()}".encode())
