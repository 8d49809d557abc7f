"""What to do about a job, from the state it is in, the worker process there is, and its slice."""

from __future__ import annotations

from enum import Enum, auto

from backend.host.executor import Exit, WorkerState
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState


class JobAction(Enum):
    KEEP = auto()
    START = auto()  # start the worker
    ADOPT = auto()  # it has been started, but that was not written down
    DROP = auto()  # cancelled before it ran
    ABANDON = auto()  # there is no slice to run on
    CANCEL = auto()  # pass a cancellation on to the worker
    FINISH = auto()  # the worker says how it ended
    LOSE = auto()  # the worker ended and did not say how


class SliceState(Enum):
    """A slice as a job sees it."""

    PENDING = auto()
    READY = auto()
    GONE = auto()


_SLICE_STATES = {
    NodeState.CREATING: SliceState.PENDING,
    NodeState.STARTING: SliceState.PENDING,
    NodeState.REPAIRING: SliceState.PENDING,
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


def next_action(state: JobState, worker: WorkerState, chips: SliceState, *, cancel_requested: bool) -> JobAction:
    match state, worker:
        case JobState.QUEUED, WorkerState.ABSENT:
            return JobAction.DROP if cancel_requested else _BEFORE_START[chips]
        case JobState.QUEUED, _:
            return JobAction.ADOPT
        case JobState.RUNNING, WorkerState.EXITED:
            return JobAction.FINISH
        case JobState.RUNNING, WorkerState.RUNNING:
            return JobAction.CANCEL if cancel_requested or chips is SliceState.GONE else JobAction.KEEP
        case JobState.RUNNING, _:
            return JobAction.LOSE
    return JobAction.KEEP


def outcome(exit: Exit, *, cancel_requested: bool) -> JobState:
    """The state a job ends in, from how its command ended."""
    if cancel_requested:
        return JobState.CANCELLED
    return JobState.SUCCEEDED if exit.exit_code == 0 else JobState.FAILED


def shell_status(exit: Exit) -> int | None:
    """The exit status as a shell shows it: 128+signal for a command ended by a signal."""
    return exit.exit_code if exit.signal is None else 128 + exit.signal
