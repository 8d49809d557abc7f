"""Who holds the chips? The processes of one job at a time; one process, as with libtpu, unless the job has several."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from backend.errors import FailedPrecondition

_LEAVING_SECONDS = 10.0
_NOTICE_SECONDS = 0.5
"""How long it may take until it is noticed that a holder's process has ended."""


@dataclass(frozen=True)
class Holder:
    """A process that holds its share of the chips, and the job it runs for: number ``process`` of ``processes``."""

    pid: int
    job: str
    process: int = 0
    processes: int = 1


class Occupancy:
    """The place for one job. A new holder waits while the launch in flight of one in its way comes to its end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: dict[int, Holder] = {}
        self._leaving: set[int] = set()

    @property
    def holder(self) -> Holder | None:
        """The first of the holders."""
        return next(iter(self.holders), None)

    @property
    def holders(self) -> list[Holder]:
        """The processes that are attached, in their order."""
        with self._changed:
            return [self._holders[process] for process in sorted(self._holders) if process not in self._leaving]

    def take(self, holder: Holder, timeout: float = _LEAVING_SECONDS) -> None:
        """Raises FailedPrecondition naming the process that holds the chips."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_the_way(holder) or self._all_leave(holder), _NOTICE_SECONDS)
            self._changed.wait_for(lambda: not self._in_the_way(holder) or not self._all_leave(holder), timeout)
            if others := self._in_the_way(holder):
                raise FailedPrecondition(_refusal(holder, others[0], leaving=others[0].process in self._leaving))
            self._holders[holder.process] = holder

    def leave(self, holder: Holder) -> None:
        """The holder is gone, but its last launch may still be running."""
        with self._changed:
            self._leaving.add(holder.process)
            self._changed.notify_all()

    def free(self, holder: Holder) -> None:
        """The holder's chips are idle and their HBM is empty."""
        with self._changed:
            del self._holders[holder.process]
            self._leaving.discard(holder.process)
            self._changed.notify_all()

    def _in_the_way(self, holder: Holder) -> list[Holder]:
        """Who must go first; those that stay come first."""
        others = [other for other in self._holders.values() if not _get_on(holder, other)]
        return sorted(others, key=lambda other: other.process in self._leaving)

    def _all_leave(self, holder: Holder) -> bool:
        return all(other.process in self._leaving for other in self._in_the_way(holder))


def _get_on(one: Holder, other: Holder) -> bool:
    """Whether two processes can hold the chips at the same time."""
    return one.job == other.job and one.processes == other.processes and one.process != other.process


def _refusal(holder: Holder, other: Holder, *, leaving: bool) -> str:
    several = holder.processes > 1 or other.processes > 1
    if several and holder.job == other.job and not leaving:
        if holder.processes != other.processes:
            return (
                f"TPUCTL_PROCESS={holder.process}/{holder.processes} does not go with process {other.pid} of the same "
                f"job, which runs as {other.process}/{other.processes}; give all processes of a job the same number"
            )
        return (
            f"TPUCTL_PROCESS={holder.process}/{holder.processes} is taken: process {other.pid} of the same job runs as "
            f"{other.process}/{other.processes}; each process of a job needs its own index"
        )
    job = f", job {other.job}" if other.job else ""
    state = "is ending" if leaving else "holds them"
    return f"the chips of this slice are in use: process {other.pid}{job} {state}; end it or use another slice"
