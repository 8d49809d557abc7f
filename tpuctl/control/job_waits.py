"""What does a queued job wait for before it has its slice, and what is to be done meanwhile? Tables decide."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Any

from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState
from tpuctl.store import JobRow, NodeRow

QUOTA_PAUSE_SECONDS = 5.0
LONGEST_QUOTA_PAUSE_SECONDS = 60.0
"""Between requests for a slice that are refused: twice as long each time."""


class For(StrEnum):
    JOBS = "jobs"
    SLICE = "slice"
    CAPACITY = "capacity"


Waits = dict[str, Any]
"""As stored. ``kind`` is one of For, ``reason`` is for people; ``until`` is a time before which nothing is tried, or
None; ``tries`` is how often it was refused."""


def waits(kind: For, reason: str, until: float | None = None, tries: int = 0) -> Waits:
    return {"kind": kind.value, "reason": reason, "until": until, "tries": tries}


def refused(before: Mapping[str, Any] | None, reason: str, now: float, pause: float = QUOTA_PAUSE_SECONDS) -> Waits:
    """It was asked for and refused: it is asked for again after a pause."""
    tries = (before or {}).get("tries", 0) + 1
    seconds = min(LONGEST_QUOTA_PAUSE_SECONDS, pause * 2.0 ** (tries - 1))
    return waits(For.CAPACITY, reason, now + seconds, tries)


def failed(reason: str, since: float, now: float) -> Waits:
    """Its slice had room and has failed: it is made anew after a pause as long as it has been tried since ``since``."""
    return waits(For.CAPACITY, reason, now + min(LONGEST_QUOTA_PAUSE_SECONDS, max(QUOTA_PAUSE_SECONDS, now - since)))


class Seen(Enum):
    """A slice as a job that waits for it sees it."""

    ABSENT = auto()
    COMING = auto()
    READY = auto()
    NOTICED = auto()  # it is about to be preempted
    BROKEN = auto()
    IN_REPAIR = auto()
    LOST = auto()
    LEAVING = auto()
    TAKEN = auto()  # another has it, or the name that it is to have


class WaitAction(Enum):
    KEEP = auto()
    MAKE = auto()  # make the slice, if there is room for it
    UNMAKE = auto()  # delete what is left of the one before
    REPAIR = auto()  # move it to chips that work
    TAKE = auto()  # it is the job's now


_OWN = {
    Seen.ABSENT: WaitAction.MAKE,
    Seen.READY: WaitAction.TAKE,
    Seen.BROKEN: WaitAction.REPAIR,
    Seen.LOST: WaitAction.UNMAKE,
}
"""What a job does whose slice is made for it; it waits if nothing is said."""
_NAMED = {Seen.READY: WaitAction.TAKE}

_SEEN = {
    NodeState.CREATING: Seen.COMING,
    NodeState.STARTING: Seen.COMING,
    NodeState.REPAIRING: Seen.COMING,
    NodeState.RESTARTING: Seen.COMING,
    NodeState.REIMAGING: Seen.COMING,
    NodeState.READY: Seen.READY,
    NodeState.DELETING: Seen.LEAVING,
}


def seen(node: NodeRow | None, owner: str | None, *, noticed: bool, in_repair: bool, taken: bool) -> Seen:
    """``owner`` is the uid of the job if the slice is to be its own."""
    if node is None:
        return Seen.ABSENT
    if taken or (owner is not None and node.owner_job != owner):
        return Seen.TAKEN
    how = _SEEN.get(node.state, Seen.LOST)
    if how is not Seen.READY:
        return how
    if noticed:
        return Seen.NOTICED
    if node.health_description is None:
        return Seen.READY
    return Seen.IN_REPAIR if in_repair else Seen.BROKEN


def wait_action(how: Seen, *, own: bool, due: bool) -> WaitAction:
    """``due`` says that the time has come, and that the jobs it comes after have succeeded."""
    action = (_OWN if own else _NAMED).get(how, WaitAction.KEEP)
    return action if due or action in (WaitAction.UNMAKE, WaitAction.REPAIR) else WaitAction.KEEP


def holds_slice(job: JobRow) -> bool:
    """Whether a job that has not ended has its slice: others wait for it, and it is not deleted under it."""
    return not job.state.ended and job.waits is None


def is_ahead(one: JobRow, other: JobRow) -> bool:
    """Whether ``one`` gets a slice before ``other`` where both wait for it."""
    return _rank(one) < _rank(other)


def _rank(job: JobRow) -> tuple[int, float, str]:
    return -int(job.plan.get("priority", 0)), job.create_time, job.uid


def contends(job: JobRow, now: float) -> bool:
    """Whether a job waits for its slice and for nothing else."""
    wait = job.waits
    if job.state is not JobState.QUEUED or wait is None or wait["kind"] == For.JOBS:
        return False
    return wait["until"] is None or wait["until"] <= now
