"""Why has an attempt of a job ended, and does another one follow?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from tpuctl.api.jobs import JobPlan, JobState, RestartPolicy
from tpuctl.api.nodes import NodeState
from tpuctl.store import NodeRow


class Why(StrEnum):
    """Why an attempt ended, as it is shown."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    SLICE_GONE = "slice gone"
    SLICE_BROKEN = "slice broken"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"


_LOST = frozenset({Why.PREEMPTED, Why.SLICE_GONE, Why.SLICE_BROKEN})
RESTARTS: dict[RestartPolicy, frozenset[Why]] = {
    RestartPolicy.NEVER: frozenset(),
    RestartPolicy.ON_PREEMPTION: _LOST,
    RestartPolicy.ON_FAILURE: _LOST | {Why.FAILED},
    RestartPolicy.ALWAYS: _LOST | {Why.FAILED, Why.SUCCEEDED},
}
"""After which ends another attempt follows."""
MAX_RESTARTS: dict[RestartPolicy, int | None] = {RestartPolicy.ON_FAILURE: 3, RestartPolicy.ALWAYS: 3}
"""How often at most, where the user doesn't say: without end after preemptions."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""Between attempts that fail, or are lost early, one after the other: twice as long each time."""
EARLY_SECONDS = 60.0
"""One that is lost later has had its chance."""
LONG_SECONDS = 600.0
"""One that has run for so long is the first in a row, however it ended."""

_RUNTIME_GONE = (NodeState.REPAIRING, NodeState.RESTARTING, NodeState.STARTING)


def why_ended(
    state: JobState, node: NodeRow | None, since: float, *, noticed: bool, slice_gone: bool, timed_out: bool
) -> Why:
    """Why an attempt that began at ``since``, and by itself would end its job in ``state``, has ended.

    One that was told of a preemption and then ended, however it did, was preempted: what saves its state and leaves
    when it is told has not come to its end.
    """
    if timed_out:
        return Why.TIMED_OUT
    if state is JobState.CANCELLED:
        return Why.CANCELLED
    if noticed or (state is JobState.FAILED and node is not None and node.state is NodeState.PREEMPTED):
        return Why.PREEMPTED
    if state is JobState.SUCCEEDED:
        return Why.SUCCEEDED
    if slice_gone:
        return Why.SLICE_GONE
    return Why.SLICE_BROKEN if node is not None and _is_broken(node, since) else Why.FAILED


def _is_broken(node: NodeRow, since: float) -> bool:
    failed = node.failure_time is not None and node.failure_time >= since
    return failed or node.state in _RUNTIME_GONE or node.health_description is not None


def restarts(plan: JobPlan, why: Why, before: int) -> bool:
    """Whether another attempt follows one that ended for ``why``, after ``before`` restarts."""
    most = MAX_RESTARTS.get(plan.restart) if plan.max_restarts is None else plan.max_restarts
    return why in RESTARTS[plan.restart] and (most is None or before < most)


def pause(ends: Sequence[tuple[Why, float]]) -> float:
    """Seconds until the next attempt; ``ends`` are why all have ended and after how many seconds, oldest first.

    One that was lost after a while is followed at once, as is the first of those that are lost early.
    """
    in_a_row = 0
    for why, seconds in reversed(ends):
        if why in _LOST and seconds >= EARLY_SECONDS:
            break
        in_a_row += 1
        if seconds >= LONG_SECONDS:
            break
    if in_a_row == 0 or (in_a_row == 1 and ends[-1][0] in _LOST):
        return 0.0
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (in_a_row - 1))
