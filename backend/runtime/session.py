"""What does one driver client own on the slice, and how is each of its operations done? Run by the launch thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backend.compiler.program import TensorType
from backend.errors import InvalidArgument, TpuError
from backend.link.arena import Arena
from backend.link.messages import (
    POSITIONS,
    Assemble,
    Copy,
    CoreMemory,
    Execute,
    Fetch,
    Fetched,
    MemoryStats,
    Put,
    Release,
    Reply,
    Unload,
)
from backend.runtime.buffers import BufferTable, Column, Storage
from backend.runtime.executable import Executable, Share
from backend.runtime.hbm import Cores, Hbm
from backend.runtime.host_calls import HostCalls
from backend.runtime.launch import Call, Launcher
from backend.runtime.machine import Machine
from backend.runtime.parties import Appointment, Party
from backend.runtime.programs import Ready
from backend.runtime.uploads import Upload
from backend.tensorcore.value import Value

Operation = Execute | Upload | Fetch | Copy | Assemble | Release | Unload | MemoryStats
_UNKNOWN = TensorType((), np.dtype("uint8"))


class Session:
    """One driver client's buffers and executables on a slice.

    ``perform`` is for the launch thread only; ``load`` may be called from another one.
    """

    def __init__(
        self,
        job: str,
        machine: Machine,
        hbm: Hbm,
        launcher: Launcher,
        arena: Arena | None,
        host_calls: HostCalls,
        party: Party,
        share: Share | None = None,
    ) -> None:
        """``share`` is None for a client that owns all cores."""
        self.job = job
        self.ended = False
        self.launcher = launcher
        self.host_calls = host_calls
        self.party = party
        self._machine = machine
        self._hbm = hbm
        self._arena = arena
        self._share = share
        self._buffers = BufferTable()
        self._executables: dict[int, Executable] = {}
        self._operations: dict[type, Callable[[Any], Reply | None]] = {
            Execute: self._execute,
            Upload: self._define,
            Fetch: self._fetch,
            Copy: self._copy,
            Assemble: self._assemble,
            Release: self._release,
            Unload: self._unload,
            MemoryStats: self._memory_stats,
        }

    @property
    def shares_slice(self) -> bool:
        """Whether other processes of the job own some of the cores."""
        return self._share is not None

    def load(self, number: int, ready: Ready) -> None:
        """Make a program known as executable ``number``."""
        self._executables[number] = Executable(ready, self._machine, self._hbm, self._share)

    def appointment(self, operation: Operation) -> Appointment | None:
        """What an operation needs other processes for."""
        if not isinstance(operation, Execute) or (executable := self._executables.get(operation.executable)) is None:
            return None
        return executable.appointment

    def is_short(self, operation: Operation) -> bool:
        """Whether an operation is sure to be done in a moment."""
        if not isinstance(operation, Execute):
            return True
        executable = self._executables.get(operation.executable)
        return executable is None or executable.is_short

    def perform(self, operation: Operation) -> Reply | None:
        """Do one operation; the reply that carries data, if it has one. Raises TpuError."""
        return self._operations[type(operation)](operation)

    def fail(self, operation: Operation, error: TpuError) -> None:
        """Let the error stand in the place of the buffers that a failed operation should have made."""
        match operation:
            case Execute():
                executable = self._executables.get(operation.executable)
                self._buffers.release(operation.released)
                if executable is None:
                    return
                for index in executable.donated(operation):
                    self._buffers.release_argument(operation.inputs[index])
                for number, (kind, _) in enumerate(executable.results, operation.outputs):
                    self._buffers.add(number, Column(kind, None, executable.num_own_cores, error=error))
            case Upload(put=put):
                self._buffers.add(put.buffer // POSITIONS, Column(_UNKNOWN, None, error=error))
            case Copy():
                self._buffers.add(operation.buffer // POSITIONS, Column(_UNKNOWN, None, error=error))

    def end(self) -> None:
        """Free all that the client owned."""
        self._buffers.clear()
        self._executables.clear()

    def _cores(self, cores: Sequence[int]) -> Cores:
        for core in cores:
            if not 0 <= core < len(self._hbm):
                raise InvalidArgument(f"core {core} is not one of this slice's {len(self._hbm)}")
            if self._share is not None and self._share.owners[core] != self._share.process:
                raise InvalidArgument(f"core {core} belongs to worker {self._share.owners[core]}, not to this process")
        return self._hbm.cores(cores)

    def call(self, operation: Execute) -> Call:
        """The client's part of a launch: what it brings for it. Raises TpuError."""
        self._buffers.release(operation.released)
        executable = self._executables.get(operation.executable)
        if executable is None:
            raise InvalidArgument(f"executable {operation.executable} is not loaded")
        executable.check_call(operation)
        cores = self._cores(operation.cores) if operation.cores else executable.own_cores
        arguments = [self._buffers.argument(named) for named in operation.inputs]
        executable.check_arguments(arguments)
        if self._share is not None:
            self.party.launched(executable.label)
        return Call(operation, executable, arguments, cores, self._buffers, self.host_calls)

    def _execute(self, operation: Execute) -> None:
        self.launcher.run(self.job, (self.call(operation),))

    def _define(self, upload: Upload) -> None:
        put = upload.put
        if upload.array is None:
            raise upload.error or InvalidArgument("the buffer has no data")
        kind = TensorType(tuple(put.shape), upload.array.dtype)
        self._add(put, kind, Storage(Value(upload.array, True), self._machine.recycle), 0)

    def _copy(self, operation: Copy) -> None:
        source, position = self._buffers[operation.source]
        self._add(operation, source.kind, source.contents(), source.place(position))

    def _add(self, operation: Put | Copy, kind: TensorType, storage: Storage, position: int) -> None:
        cores = self._cores((operation.core,))
        column = Column(kind, storage, first=position)
        if operation.memory == "device":
            size = self._machine.padded_bytes(kind)
            self._hbm.allocate(cores, size, f"a {kind.dtype}{list(kind.shape)} buffer")
            column.hbm, column.where, column.hbm_bytes = self._hbm, cores, size
        self._buffers.add(operation.buffer // POSITIONS, column)

    def _fetch(self, operation: Fetch) -> Fetched:
        column, position = self._buffers[operation.buffer]
        part = np.ascontiguousarray(column.part(position))
        data = part.reshape(-1).view(np.uint8)
        end = operation.offset + operation.size
        if not 0 <= operation.offset <= end <= len(data):
            raise InvalidArgument(f"bytes {operation.offset} to {end} of a buffer of {len(data)} bytes")
        piece = data[operation.offset : end]
        if operation.region is None:
            return Fetched(operation.sequence, piece.tobytes())
        if self._arena is None or operation.region.size < operation.size:
            raise InvalidArgument("the region cannot take the data")
        if len(piece):
            np.copyto(np.frombuffer(self._arena.view(operation.region), np.uint8)[: len(piece)], piece)
        return Fetched(operation.sequence, b"")

    def _assemble(self, operation: Assemble) -> None:
        self._buffers.assemble(operation.buffers, operation.column)

    def _release(self, operation: Release) -> None:
        self._buffers.release(operation.columns)
        self._buffers.release_parts(operation.buffers)

    def _unload(self, operation: Unload) -> None:
        self._executables.pop(operation.executable, None)

    def _memory_stats(self, operation: MemoryStats) -> CoreMemory:
        self._cores((operation.core,))
        hbm, core = self._hbm, operation.core
        figures = (hbm.in_use, hbm.peak, hbm.allocations, hbm.largest)
        in_use, peak, allocations, largest = (int(figure[core]) for figure in figures)
        return CoreMemory(operation.request, in_use, peak, hbm.limit_bytes, allocations, largest)
