"""What does a launch ask of a loaded program every time? Worked out once, when it is loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backend.compiler.program import Program
from backend.errors import InvalidArgument
from backend.link.messages import Execute
from backend.runtime.buffers import Handle
from backend.runtime.hbm import CoreHbm
from backend.runtime.machine import Loaded, Machine

_SHORT_SECONDS = 0.0005


class Executable:
    """A program in the engine. ``host_seconds`` is how long its last run took."""

    def __init__(self, program: Program, loaded: Loaded, machine: Machine, hbm: Sequence[CoreHbm]) -> None:
        self.name = program.name
        self.loaded = loaded
        self.reaches_host = program.reaches_host
        self.host_seconds = float("inf")
        self.parameters = program.parameters
        on_host = [memory != "device" for memory in program.result_memories] or [False] * len(program.results)
        self.results = [
            (kind, None if host else machine.padded_bytes(kind))
            for kind, host in zip(program.results, on_host, strict=True)
        ]
        """Type and HBM bytes of each result on one core; None for one in the host's memory."""
        self.cores = [hbm[core] for core in program.device_ids]
        self.result_purpose = f"a result of {program.name}"
        self.launch_purpose = f"the results and temporaries of {program.name}"
        self._donated = frozenset(program.donated)
        self._alias_bytes = program.memory.alias_bytes
        self._needed_bytes = program.memory.temp_bytes + sum(size or 0 for _, size in self.results)

    @property
    def is_short(self) -> bool:
        """Whether a launch is sure to be done in a moment."""
        return self.host_seconds < _SHORT_SECONDS and not self.reaches_host

    def check_call(self, operation: Execute, cores: Sequence[CoreHbm]) -> None:
        """Raises InvalidArgument unless the numbers of cores and arguments are right."""
        if len(cores) != len(self.cores) or len(operation.inputs) != len(cores) * len(self.parameters):
            raise InvalidArgument(
                f"{self.name} takes {len(self.parameters)} arguments on {len(self.cores)} cores, "
                f"but got {len(operation.inputs)} buffers for {len(cores)} cores"
            )

    def check_types(self, columns: Sequence[Sequence[Handle]]) -> None:
        """Raises InvalidArgument for an argument of the wrong type, or the error that stands in its place."""
        for index, (kind, column) in enumerate(zip(self.parameters, columns, strict=True)):
            for handle in column:
                if handle.kind is kind:
                    continue
                if handle.kind != kind:
                    handle.contents()
                    raise InvalidArgument(
                        f"argument {index} of {self.name} must be {kind.dtype}{list(kind.shape)}, "
                        f"but is {handle.kind.dtype}{list(handle.kind.shape)}"
                    )
                handle.kind = kind

    def donated(self, operation: Execute) -> Collection[int]:
        """The parameters whose buffers are dead after this launch."""
        return self._donated.difference(operation.keep) if operation.keep else self._donated

    def needed_bytes(self, reused_bytes: int) -> int:
        """HBM of one core that a launch takes, if ``reused_bytes`` of arguments are donated."""
        return max(0, self._needed_bytes - min(reused_bytes, self._alias_bytes))
