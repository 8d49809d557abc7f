"""Which processes has a job, and what is each of them doing? What decides whether a launch of several can start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_FORGET_SECONDS = 10.0
_TROUBLES_KEPT = 100


@dataclass(frozen=True)
class Appointment:
    """A launch that needs several processes. ``label`` names its program: "jit_step (train.py:41)"."""

    signature: bytes
    label: str
    processes: frozenset[int]


class Trouble(NamedTuple):
    """Why a launch cannot start; ``blamed`` is the process that keeps the others from it, if it is one alone."""

    text: str
    blamed: int | None = None


@dataclass(eq=False)
class Party:
    """One process of a job, from when it attaches on.

    ``idle`` says whether all it has launched is done; ``tell`` says something to the people who watch it.
    """

    process: int
    pid: int
    notice_seconds: float = 10.0
    timeout_seconds: float = 120.0
    ended: bool = False
    compiling: int = 0
    appointment: Appointment | None = None
    last_label: str = ""
    last_time: float = 0.0
    idle: Callable[[], bool] = field(default=lambda: True)
    tell: Callable[[str], None] = field(default=lambda text: None)

    def launched(self, label: str) -> None:
        """A program of this process starts."""
        self.last_label, self.last_time = label, time.monotonic()


@dataclass(eq=False)
class Run:
    """The processes of a job that belong together: the first to attach with each index, then the second, ..."""

    job: str
    processes: int
    parties: dict[int, Party] = field(default_factory=dict)
    trouble: Trouble | None = None
    spoiled: bool = False
    """Whether a process has ended before all it had launched was done."""

    def is_over(self) -> bool:
        """Whether all processes have taken part, and have ended."""
        return len(self.parties) == self.processes and all(party.ended for party in self.parties.values())


class Parties:
    """The runs of the job that holds the slice, and the troubles of the latest jobs. Any thread."""

    def __init__(self) -> None:
        self.troubles: dict[str, Trouble] = {}
        self._runs: list[Run] = []
        self._left_time = 0.0

    def attach(self, job: str, processes: int, party: Party) -> Run:
        """The run that a process takes part in from now on."""
        if self._is_over(job, processes):
            self._runs.clear()
            self.troubles.pop(job, None)
        self._runs = [run for run in self._runs if not run.is_over()]
        for run in self._runs:
            if party.process not in run.parties:
                break
        else:
            run = Run(job, processes)
            self._runs.append(run)
        run.parties[party.process] = party
        return run

    def leave(self, run: Run, party: Party, *, spoiled: bool) -> None:
        """A process has ended."""
        party.ended = True
        run.spoiled |= spoiled
        self._left_time = time.monotonic()

    def report(self, run: Run, trouble: Trouble) -> None:
        """Keep what has ended a run; the first trouble is the cause of later ones."""
        if run.trouble is None:
            run.trouble = trouble
            self._keep(run.job, trouble)

    def suspend(self, run: Run, trouble: Trouble) -> None:
        """Keep what a run waits for."""
        if run.trouble is None:
            self._keep(run.job, trouble)

    def resume(self, run: Run) -> None:
        """A run goes on."""
        if run.trouble is None:
            self.troubles.pop(run.job, None)

    def telemetry(self) -> dict[str, Any]:
        """``runs`` are those under way: who waits at which launch for processes that have not attached, and what has
        failed; ``troubles`` the troubles of the latest jobs by their names."""
        return {
            "runs": [_told(run) for run in list(self._runs)],
            "troubles": {job: trouble._asdict() for job, trouble in self.troubles.copy().items()},
        }

    def _keep(self, job: str, trouble: Trouble) -> None:
        self.troubles[job] = trouble
        while len(self.troubles) > _TROUBLES_KEPT:
            del self.troubles[next(iter(self.troubles))]

    def _is_over(self, job: str, processes: int) -> bool:
        """Whether a process that attaches now starts the job anew: nobody is there, and nobody can be waited for."""
        if any((run.job, run.processes) != (job, processes) for run in self._runs):
            return True
        if any(not party.ended for run in self._runs for party in run.parties.values()):
            return False
        broken = not self._runs or any(run.spoiled or run.trouble for run in self._runs)
        return broken or time.monotonic() - self._left_time > _FORGET_SECONDS


def _told(run: Run) -> dict[str, Any]:
    parties = dict(run.parties)
    appointments = [party.appointment for party in parties.values() if not party.ended]
    missing = {
        process: appointment.label
        for appointment in appointments
        if appointment is not None
        for process in appointment.processes - parties.keys()
    }
    return {
        "job": run.job,
        "missing": sorted(missing),
        "launch": next(iter(missing.values()), None),
        "trouble": None if run.trouble is None else run.trouble.text,
    }
