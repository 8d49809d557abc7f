"""What does one driver client own on the slice, and how is each of its operations done? Run by the launch thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.compiler.program import Program, TensorType
from backend.errors import InvalidArgument, TpuError
from backend.link.arena import Arena
from backend.link.messages import Copy, CoreMemory, Execute, Fetch, Fetched, MemoryStats, Put, Release, Reply, Unload
from backend.runtime.buffers import BufferTable, Handle, Storage, gather
from backend.runtime.hbm import CoreHbm
from backend.runtime.machine import Loaded, Machine
from backend.runtime.telemetry import LaunchCounters
from backend.runtime.uploads import Upload
from backend.tensorcore.engine import Value

Operation = Execute | Upload | Fetch | Copy | Release | Unload | MemoryStats


@dataclass(frozen=True)
class Executable:
    """A loaded program, with what a launch asks of it every time."""

    program: Program
    loaded: Loaded
    results: list[tuple[TensorType, int]]
    """Type and HBM bytes of each result on one core."""

    @property
    def output_bytes(self) -> int:
        return sum(size for _, size in self.results)


class Session:
    """One driver client's buffers and executables on a slice.

    ``perform`` is for the launch thread only; ``load`` may be called from another one.
    """

    def __init__(
        self, job: str, machine: Machine, hbm: Sequence[CoreHbm], counters: LaunchCounters, arena: Arena | None
    ) -> None:
        self.job = job
        self.ended = False
        self._machine = machine
        self._hbm = hbm
        self._counters = counters
        self._arena = arena
        self._buffers = BufferTable()
        self._executables: dict[int, Executable] = {}
        self._operations: dict[type, Callable[[Any], Reply | None]] = {
            Execute: self._execute,
            Upload: self._define,
            Fetch: self._fetch,
            Copy: self._copy,
            Release: self._release,
            Unload: self._unload,
            MemoryStats: self._memory_stats,
        }

    def load(self, number: int, program: Program) -> None:
        """Make ``program`` known as executable ``number``."""
        results = [(kind, self._machine.padded_bytes(kind)) for kind in program.results]
        self._executables[number] = Executable(program, self._machine.load(program), results)

    def perform(self, operation: Operation) -> Reply | None:
        """Do one operation; the reply that carries data, if it has one. Raises TpuError."""
        return self._operations[type(operation)](operation)

    def fail(self, operation: Operation, error: TpuError) -> None:
        """Let the error stand in the place of the buffers that a failed operation should have made."""
        match operation:
            case Execute():
                executable = self._executables.get(operation.executable)
                if executable is None:
                    return
                kinds = [kind for kind, _ in executable.results]
                numbers = range(operation.outputs, operation.outputs + len(kinds) * executable.program.num_cores)
                for position, number in enumerate(numbers):
                    self._buffers.add(number, Handle(kinds[position % len(kinds)], None, error=error))
            case Upload(put=put):
                self._buffers.add(put.buffer, Handle(TensorType((), np.dtype("uint8")), None, error=error))
            case Copy():
                self._buffers.add(operation.buffer, Handle(TensorType((), np.dtype("uint8")), None, error=error))

    def end(self) -> None:
        """Free all that the client owned."""
        self._buffers.clear()
        self._executables.clear()

    def _core(self, core: int) -> CoreHbm:
        if not 0 <= core < len(self._hbm):
            raise InvalidArgument(f"core {core} is not one of this slice's {len(self._hbm)}")
        return self._hbm[core]

    def _execute(self, operation: Execute) -> None:
        executable = self._executables.get(operation.executable)
        if executable is None:
            raise InvalidArgument(f"executable {operation.executable} is not loaded")
        program = executable.program
        cores = [self._core(core) for core in operation.cores or program.device_ids]
        if len(operation.inputs) != len(cores) * len(program.parameters) or len(cores) != program.num_cores:
            raise InvalidArgument(
                f"{program.name} takes {len(program.parameters)} arguments on {program.num_cores} cores, "
                f"but got {len(operation.inputs)} buffers for {len(cores)} cores"
            )
        columns = list(self._buffers.arguments(operation.inputs, len(cores)))
        _check_types(program, columns)
        arguments = [gather(column) for column in columns]
        donated = self._donated(operation, program)
        reused = sum(columns[parameter][0].hbm_bytes for parameter in set(program.donated) - set(operation.keep))
        needed = max(0, program.memory.temp_bytes + executable.output_bytes - min(reused, program.memory.alias_bytes))
        for core in cores:
            core.require(needed, f"the results and temporaries of {program.name}")
        del columns
        self._buffers.release(donated)
        started = time.perf_counter()
        launch = executable.loaded.run(arguments)
        host_seconds = time.perf_counter() - started
        self._counters.record(self.job, launch.device_seconds, launch.mxu_seconds, host_seconds)
        storages = [Storage(value) for value in launch.results]
        number = operation.outputs
        for position, core in enumerate(cores):
            for storage, (kind, size) in zip(storages, executable.results, strict=True):
                core.allocate(size, f"a result of {program.name}")
                self._buffers.add(number, Handle(kind, storage, position, hbm=core, hbm_bytes=size))
                number += 1

    def _donated(self, operation: Execute, program: Program) -> list[int]:
        count = len(program.parameters)
        given = set(program.donated) - set(operation.keep)
        return [number for index, number in enumerate(operation.inputs) if index % count in given] if given else []

    def _define(self, upload: Upload) -> None:
        put = upload.put
        if upload.array is None:
            raise upload.error or InvalidArgument("the buffer has no data")
        kind = TensorType(tuple(put.shape), upload.array.dtype)
        self._add(put, kind, Storage(Value(upload.array, True)), 0)

    def _copy(self, operation: Copy) -> None:
        source = self._buffers[operation.source]
        self._add(operation, source.kind, source.contents(), source.position)

    def _add(self, operation: Put | Copy, kind: TensorType, storage: Storage, position: int) -> None:
        hbm = self._core(operation.core)
        if operation.memory == "device":
            size = self._machine.padded_bytes(kind)
            hbm.allocate(size, f"a {kind.dtype}{list(kind.shape)} buffer")
            self._buffers.add(operation.buffer, Handle(kind, storage, position, hbm=hbm, hbm_bytes=size))
        else:
            self._buffers.add(operation.buffer, Handle(kind, storage, position))

    def _fetch(self, operation: Fetch) -> Fetched:
        part = np.ascontiguousarray(self._buffers[operation.buffer].part())
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

    def _release(self, operation: Release) -> None:
        self._buffers.release(operation.buffers)

    def _unload(self, operation: Unload) -> None:
        self._executables.pop(operation.executable, None)

    def _memory_stats(self, operation: MemoryStats) -> CoreMemory:
        hbm = self._core(operation.core)
        return CoreMemory(
            operation.request, hbm.bytes_in_use, hbm.peak_bytes, hbm.limit_bytes, hbm.allocations, hbm.largest_bytes
        )


def _check_types(program: Program, columns: Sequence[Sequence[Handle]]) -> None:
    for index, (kind, column) in enumerate(zip(program.parameters, columns, strict=True)):
        for handle in column:
            if handle.kind != kind:
                handle.contents()
                raise InvalidArgument(
                    f"argument {index} of {program.name} must be {kind.dtype}{list(kind.shape)}, "
                    f"but is {handle.kind.dtype}{list(handle.kind.shape)}"
                )
