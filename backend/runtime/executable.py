"""What does a launch ask of a loaded program every time? Worked out once, when it is loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from backend.compiler.program import Program, TensorType
from backend.errors import InvalidArgument
from backend.link.messages import Execute
from backend.runtime.buffers import Argument, Column
from backend.runtime.hbm import Hbm
from backend.runtime.machine import Machine
from backend.runtime.parties import Appointment
from backend.runtime.programs import Ready

_SHORT_SECONDS = 0.0005


@dataclass(frozen=True)
class Share:
    """Which cores of the slice belong to a client: those whose owner is ``process``."""

    process: int
    owners: Sequence[int]


class Executable:
    """A program in the engine, as one client launches it. ``host_seconds`` is how long its last run took.

    ``link_seconds`` are those of its collectives, simulated, on the links as they were at ``links_version``.

    ``places`` are the positions of the client's own cores in a program that has others, too; launching that is an
    ``appointment``.
    """

    def __init__(self, ready: Ready, machine: Machine, hbm: Hbm, share: Share | None = None) -> None:
        """``share`` is None for a client that owns all cores."""
        program = ready.program
        self.name = program.name
        self.ready = ready
        self.loaded = ready.loaded
        self.reaches_host = program.reaches_host
        self.host_seconds = float("inf")
        self.link_seconds = 0.0
        self.links_version = -1
        self.parameters = program.parameters
        on_host = [memory != "device" for memory in program.result_memories] or [False] * len(program.results)
        self.results = [
            (kind, None if host else machine.padded_bytes(kind))
            for kind, host in zip(program.results, on_host, strict=True)
        ]
        """Type and HBM bytes of each result on one core; None for one in the host's memory."""
        self.num_cores = self.num_own_cores = len(program.device_ids)
        self.cores = self.own_cores = hbm.cores(program.device_ids)
        self.places: list[int] | None = None
        self.appointment: Appointment | None = None
        self.label = program.name
        if share is not None:
            self.label = label_of(program)
            self._divide(program.device_ids, share, hbm, ready.signature)
        self.result_bytes = [size for _, size in self.results if size is not None]
        self.launch_purpose = f"the results and temporaries of {program.name}"
        self._donated = frozenset(program.donated)
        self._alias_bytes = program.memory.alias_bytes
        self._needed_bytes = program.memory.temp_bytes + sum(size or 0 for _, size in self.results)

    def _divide(self, device_ids: Sequence[int], share: Share, hbm: Hbm, signature: bytes) -> None:
        owners = [share.owners[device] for device in device_ids]
        if all(owner == share.process for owner in owners):
            return
        self.places = [place for place, owner in enumerate(owners) if owner == share.process]
        self.num_own_cores = len(self.places)
        if self.places:
            self.own_cores = hbm.cores([device_ids[place] for place in self.places])
            self.appointment = Appointment(signature, self.label, frozenset(owners))

    @property
    def is_short(self) -> bool:
        """Whether a launch is sure to be done in a moment."""
        return self.host_seconds < _SHORT_SECONDS and not self.reaches_host and self.appointment is None

    def check_call(self, operation: Execute) -> None:
        """Raises InvalidArgument unless the numbers of cores and arguments are right."""
        if not self.num_own_cores:
            raise InvalidArgument(f"{self.name} has no part on the cores of this process")
        num_cores = len(operation.cores) or self.num_cores
        if num_cores != self.num_cores or len(operation.inputs) != len(self.parameters):
            raise InvalidArgument(
                f"{self.name} takes {len(self.parameters)} arguments on {self.num_cores} cores, "
                f"but got {len(operation.inputs)} for {num_cores} cores"
            )

    def check_arguments(self, arguments: Sequence[Argument]) -> None:
        """Raises InvalidArgument for an argument of the wrong type or size, or the error that stands in its place."""
        for index, (kind, argument) in enumerate(zip(self.parameters, arguments, strict=True)):
            if isinstance(argument, Column):
                count = argument.count
                self._check_type(index, kind, argument)
            else:
                count = len(argument)
                for column, _ in argument:
                    self._check_type(index, kind, column)
            if count != self.num_own_cores:
                raise InvalidArgument(
                    f"argument {index} of {self.name} must lie on {self.num_own_cores} cores, but is on {count}"
                )

    def _check_type(self, index: int, kind: TensorType, column: Column) -> None:
        if column.kind is kind:
            return
        if column.kind != kind:
            column.contents()
            raise InvalidArgument(
                f"argument {index} of {self.name} must be {kind.dtype}{list(kind.shape)}, "
                f"but is {column.kind.dtype}{list(column.kind.shape)}"
            )
        column.kind = kind

    @property
    def own_places(self) -> Sequence[int]:
        return range(self.num_cores) if self.places is None else self.places

    def donated(self, operation: Execute) -> Collection[int]:
        """The parameters whose buffers are dead after this launch."""
        return self._donated.difference(operation.keep) if operation.keep else self._donated

    def needed_bytes(self, reused_bytes: int) -> int:
        """HBM of one core that a launch takes, if ``reused_bytes`` of arguments are donated."""
        return max(0, self._needed_bytes - min(reused_bytes, self._alias_bytes))


def label_of(program: Program) -> str:
    """The program's name with the line of the script that it came from, if that is known: "jit_step (train.py:41)"."""
    sources = [step.source for step in program.body.instructions if ":" in step.source]
    own = [source for source in sources if "site-packages" not in source]
    for source in own or sources:
        file, _, line = source.rpartition(":")
        return f"{program.name} ({PurePath(file).name}:{line})"
    return program.name
