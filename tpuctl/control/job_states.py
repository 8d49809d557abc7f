"""What to do about a job, from the state it is in, the worker processes there are, and its slice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto

from backend.host.executor import Exit, WorkerState
from backend.runtime.parties import Trouble
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState


class JobAction(Enum):
    KEEP = auto()
    WAIT = auto()  # it has no slice yet: see job_waits.py
    START = auto()  # start the workers
    ADOPT = auto()  # some have been started, but that was not written down
    DROP = auto()  # cancelled before it ran
    ABANDON = auto()  # there is no slice to run on
    END = auto()  # ask the workers that are left to end
    FINISH = auto()  # all workers have ended


class SliceState(Enum):
    """A slice as a job sees it."""

    PENDING = auto()
    READY = auto()
    GONE = auto()


_SLICE_STATES = {
    NodeState.CREATING: SliceState.PENDING,
    NodeState.STARTING: SliceState.PENDING,
    NodeState.REPAIRING: SliceState.PENDING,
    NodeState.RESTARTING: SliceState.PENDING,
    NodeState.REIMAGING: SliceState.PENDING,
    NodeState.READY: SliceState.READY,
}

_BEFORE_START = {
    SliceState.PENDING: JobAction.KEEP,
    SliceState.READY: JobAction.START,
    SliceState.GONE: JobAction.ABANDON,
}


def slice_state(node: NodeState | None) -> SliceState:
    """What a node's state means to a job that needs it; None for a node that is not there."""
    return SliceState.GONE if node is None else _SLICE_STATES.get(node, SliceState.GONE)


def next_action(
    state: JobState,
    workers: Collection[WorkerState],
    chips: SliceState,
    *,
    cancel_requested: bool,
    failed: bool,
    waiting: bool = False,
) -> JobAction:
    """``workers`` are the states of all workers; ``failed`` says that one has ended in failure.

    ``waiting`` says that the job waits for what it needs before it has its slice.
    """
    match state:
        case JobState.QUEUED if set(workers) == {WorkerState.ABSENT}:
            if cancel_requested:
                return JobAction.DROP
            return JobAction.WAIT if waiting else _BEFORE_START[chips]
        case JobState.QUEUED:
            return JobAction.ADOPT
        case JobState.RUNNING if WorkerState.RUNNING in workers:
            return JobAction.END if cancel_requested or failed or chips is SliceState.GONE else JobAction.KEEP
        case JobState.RUNNING:
            return JobAction.FINISH
    return JobAction.KEEP


Ends = Mapping[int, Exit | None]
"""How workers have ended, by their numbers; None for one that was lost: it ended and did not say how."""


def first_failure(ends: Ends) -> int | None:
    """The worker that failed first; None if none has. One that was lost is what made others fail."""
    lost = [number for number, exit in ends.items() if exit is None]
    failed = {number: exit.end_time for number, exit in ends.items() if exit is not None and shell_status(exit) != 0}
    return min(lost) if lost else min(failed, key=lambda number: (failed[number], number)) if failed else None


def outcome(failed: int | None, *, cancel_requested: bool, stalled: bool = False) -> JobState:
    """The state a job ends in; ``failed`` is the worker that failed first, ``stalled`` that it could not go on."""
    if cancel_requested:
        return JobState.CANCELLED
    return JobState.FAILED if stalled or failed is not None else JobState.SUCCEEDED


def shell_status(exit: Exit) -> int | None:
    """The exit status as a shell shows it: 128+signal for a command ended by a signal."""
    return exit.exit_code if exit.signal is None else 128 + exit.signal


def exit_to_tell(failed: int | None, ends: Ends) -> Exit | None:
    """The exit that counts as the job's: that of the worker that failed first, any one's if none has.

    One to blame for the failure of others may have been ended after they had.
    """
    if failed is not None and ends.get(failed) is None:
        return None
    first = first_failure({number: exit for number, exit in ends.items() if exit is not None})
    return ends[min(ends) if first is None else first]


def at_fault(failed: int | None, exit: Exit | None, trouble: Trouble | None) -> int | None:
    """The worker to blame: ``failed``, which failed first, unless its launches failed for another.

    ``trouble`` is what the slice says. Those that are left waiting may end before the one that they wait for.
    """
    is_victim = exit is not None and exit.signal is None and trouble is not None
    return trouble.blamed if trouble is not None and is_victim and trouble.blamed is not None else failed


def who_failed(failed: int | None, exit: Exit | None, trouble: Trouble | None) -> str:
    """What is said of a job of several workers of which ``failed`` failed first."""
    said = f"worker {failed} {how_it_ended(exit)}"
    if trouble is None:
        return said
    if at_fault(failed, exit, trouble) != failed:
        return trouble.text
    return f"{said}\n{trouble.text}"


def how_it_ended(exit: Exit | None) -> str:
    """What is said of the worker that failed first."""
    if exit is None:
        return "was killed, and its command with it"
    return f"failed first: exit status {exit.exit_code}" if exit.signal is None else f"died first: signal {exit.signal}"
