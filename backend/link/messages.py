"""What can be said on the device link? One struct a message, requests and replies each a tagged union.

Every operation that the launch queue executes carries ``sequence``, numbered by the client from 1 without gaps; the
runtime answers with ``Done(through)``, the last sequence number that has been executed. So an asynchronous operation
needs no reply of its own. Questions carry ``request`` and are answered by a reply with the same number.
Buffers and executables are named by numbers that the client chooses. Buffers come in columns, an array's buffers on its
cores: a launch makes a column for each result, everything else makes columns of one buffer.

A launch whose program calls back into the script is a conversation while it runs: Host messages with the launch's
sequence number. ``channel`` names a send or recv of the program, ``core`` the position of the core in the program.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

VERSION = 5

POSITIONS = 1 << 20
"""A buffer's number is that of its column times this, plus its position in the column."""

Memory = Literal["device", "pinned_host", "unpinned_host"]


class Message(
    msgspec.Struct,
    array_like=True,
    forbid_unknown_fields=True,
    gc=False,
    tag=True,
    tag_field="message_type",
):
    """Base of all messages: an array on the wire, its type's name first."""


class Region(Message):
    """Bulk data that lies in the connection's staging arena, ``size`` bytes from ``offset``."""

    offset: int
    size: int


Data = bytes | Region


class Hello(Message):
    """First message of a client. ``job`` names its session; ``token`` is needed on TCP only.

    A driver is process number ``process`` of its job's ``processes``; after ``notice_seconds`` of waiting for others it
    wants to hear of it, after ``timeout_seconds`` it gives up.
    """

    version: int
    role: Literal["driver", "monitor"]
    pid: int
    job: str
    token: str = ""
    process: int = 0
    processes: int = 1
    notice_seconds: float = 10.0
    timeout_seconds: float = 120.0


class Compile(Message):
    """Compile a StableHLO ``module`` (answered by Compiled or Failed) and keep it as ``executable``.

    ``fingerprint`` is that of what the script compiled; ``module`` may come of that, partitioned and saved before.
    """

    request: int
    executable: int
    module: bytes
    options: bytes
    fingerprint: str = ""


class Execute(Message):
    """Run a program. An input is a column, or the numbers of its buffers core by core; results get columns from
    ``outputs`` on.

    ``cores`` replaces the program's device assignment unless it is empty; ``keep`` are parameters not to donate;
    ``released`` are columns that the client no longer refers to, as Release tells them.
    """

    sequence: int
    executable: int
    inputs: list[int | list[int]]
    outputs: int
    cores: list[int]
    keep: list[int]
    released: list[int] = []


class Stage(Message):
    """A part of the data of a buffer that is still to come by Put; the first part makes room for ``size`` bytes."""

    buffer: int
    size: int
    data: Data


class Put(Message):
    """A new buffer from host data: what Stage messages brought, if any, and then ``data``."""

    sequence: int
    buffer: int
    core: int
    memory: Memory
    dtype: str
    shape: list[int]
    data: Data


class Fetch(Message):
    """Copy ``size`` bytes of a buffer from ``offset`` on to the host: into ``region``, or inline without one."""

    sequence: int
    buffer: int
    offset: int
    size: int
    region: Region | None


class Copy(Message):
    """A second buffer with the same contents on another core or in another memory."""

    sequence: int
    source: int
    buffer: int
    core: int
    memory: Memory


class Assemble(Message):
    """Buffers, each alone in its column, become one: ``column``."""

    buffers: list[int]
    column: int


class Release(Message):
    """The client no longer refers to these columns, nor to these single buffers of others."""

    columns: list[int]
    buffers: list[int] = []


class Unload(Message):
    """The client no longer refers to this executable."""

    executable: int


class MemoryStats(Message):
    """How full is a core's HBM? Asked in launch order; answered by CoreMemory."""

    request: int
    core: int


class Status(Message):
    """What is the slice doing, and if asked for ``cores``, each of them? Answered at once by Telemetry."""

    request: int
    cores: bool = False


class Fault(Message):
    """Break a part of the slice, or mend it: "link", "chip" or "host", and where. Answered by Telemetry or Failed."""

    request: int
    part: str
    where: list[str]
    recover: bool = False
    slice_index: int = 0


class HostAnswer(Message):
    """What a callback answers to a HostReceive, or a part of ``size`` bytes of it."""

    sequence: int
    channel: int
    core: int
    size: int
    data: bytes


class HostReached(Message):
    """All that the launch had said to the host before its HostBarrier has been done."""

    sequence: int


class HostError(Message):
    """A callback of the launch failed, and the launch with it; ``code`` is a google.rpc.Code."""

    sequence: int
    code: int
    message: str


HostReply = HostAnswer | HostReached | HostError
Request = (
    Hello
    | Compile
    | Execute
    | Stage
    | Put
    | Fetch
    | Copy
    | Assemble
    | Release
    | Unload
    | MemoryStats
    | Status
    | Fault
    | HostReply
)


class Core(Message):
    """One TensorCore as the driver shows it: ``coords`` of its chip on the torus of slice ``slice_index``.

    ``process_index`` is the process of the client's job that owns it.
    """

    id: int
    coords: list[int]
    core_on_chip: int
    process_index: int
    slice_index: int = 0


class Welcome(Message):
    """The connection stands. ``hbm_bytes`` is what programs may use of one core's HBM.

    A core here is a device, which joins ``tensor_cores`` TensorCores. A monitor is told of none.
    """

    version: int
    name: str
    type: str
    device_kind: str
    hbm_bytes: int
    cores: list[Core]
    tensor_cores: int = 1


class Notice(Message):
    """What the people who watch the client's process should read."""

    text: str


class Refused(Message):
    """The connection does not stand, and ends."""

    code: int
    message: str


class Failure(Message):
    """An operation of the launch queue failed; ``code`` is a google.rpc.Code."""

    sequence: int
    code: int
    message: str


class Done(Message):
    """Everything up to sequence number ``through`` has been executed, with these failures."""

    through: int
    failures: list[Failure]


class RegionFree(Message):
    """The runtime has read the staging region at ``offset``; it may be used again."""

    offset: int


class Fetched(Message):
    """A Fetch's data; ``data`` is empty if it lies in the region that the Fetch named."""

    sequence: int
    data: bytes


class Tensor(Message):
    """Shape and numpy dtype name of one core's part."""

    shape: list[int]
    dtype: str


class Compiled(Message):
    """A program, as the driver shows it to JAX. Bytes and costs are those of one core. No memories: all in HBM.

    ``inspections`` are keys and serialized OpShardings for the script's own callbacks.
    """

    request: int
    name: str
    num_replicas: int
    num_partitions: int
    device_ids: list[int]
    parameters: list[Tensor]
    results: list[Tensor]
    donated: list[int]
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    code_bytes: int
    flops: float
    transcendentals: float
    bytes_accessed: float
    optimized_module: bytes
    argument_memories: list[Memory]
    result_memories: list[Memory]
    argument_layouts: list[list[int]]
    result_layouts: list[list[int]]
    inspections: list[tuple[bytes, bytes]]


class Failed(Message):
    """A question could not be answered; ``code`` is a google.rpc.Code."""

    request: int
    code: int
    message: str


class CoreMemory(Message):
    """HBM of one core, in bytes of padded tiles."""

    request: int
    bytes_in_use: int
    peak_bytes: int
    limit_bytes: int
    allocations: int
    largest_bytes: int


class Telemetry(Message):
    """The runtime's figures, by the names that ``status`` shows."""

    request: int
    values: dict[str, Any]


class HostSend(Message):
    """A launch hands a value to a callback, or a part of ``size`` bytes of it."""

    sequence: int
    channel: int
    core: int
    size: int
    data: bytes


class HostReceive(Message):
    """A launch waits for what a callback answers: for HostAnswer or HostError."""

    sequence: int
    channel: int
    core: int


class HostBarrier(Message):
    """A launch waits until all that it has said to the host is done: for HostReached or HostError."""

    sequence: int


HostCall = HostSend | HostReceive | HostBarrier
Answer = Compiled | Failed | CoreMemory | Telemetry
Reply = Welcome | Refused | Notice | Done | RegionFree | Fetched | HostCall | Answer
