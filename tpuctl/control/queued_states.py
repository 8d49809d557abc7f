"""Where does a queued resource go next, from its state, its nodes' and the time?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tpuctl.api.nodes import NodeState
from tpuctl.api.queued import QueuedState, QueueingPolicy, StateInitiator

WAITING = frozenset({QueuedState.ACCEPTED, QueuedState.WAITING_FOR_RESOURCES})
SETTLED = frozenset({QueuedState.FAILED, QueuedState.SUSPENDED})
PLACED = frozenset(QueuedState) - WAITING - {QueuedState.CREATING, QueuedState.FAILED}
"""States in which the nodes have been made, so that each is known by its name."""
REMOVABLE = WAITING | SETTLED
"""States in which it may be deleted without force."""
RESETTABLE = SETTLED | {QueuedState.ACTIVE}
QUIET = SETTLED | {QueuedState.ACTIVE, QueuedState.WAITING_FOR_RESOURCES}
"""States in which nothing happens but that time goes by or a node changes."""
LOST = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED})


@dataclass(frozen=True)
class Window:
    """When nodes may be made: from ``start`` until before ``end``, in seconds since the epoch."""

    start: float
    end: float


def window(policy: QueueingPolicy | None, since: float) -> Window:
    """The window of a request whose durations count from ``since``."""
    start, end = since, float("inf")
    if policy is None:
        return Window(start, end)
    interval = policy.valid_interval
    after = policy.valid_after_time or (interval and interval.start_time)
    until = policy.valid_until_time or (interval and interval.end_time)
    if policy.valid_after_duration is not None:
        start = since + seconds(policy.valid_after_duration)
    elif after:
        start = _epoch(after)
    if policy.valid_until_duration is not None:
        end = since + seconds(policy.valid_until_duration)
    elif until:
        end = _epoch(until)
    return Window(start, end)


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def next_state(state: QueuedState, nodes: Collection[NodeState], when: Window, now: float) -> QueuedState | None:
    """The state to go to; None to stay. A queued resource that is DELETING goes when its nodes have."""
    match state:
        case QueuedState.CREATING:
            return QueuedState.ACCEPTED
        case QueuedState.ACCEPTED | QueuedState.WAITING_FOR_RESOURCES:
            return _from_queue(state, nodes, when, now)
        case QueuedState.PROVISIONING if nodes and all(node is NodeState.READY for node in nodes):
            return QueuedState.ACTIVE
        case QueuedState.PROVISIONING | QueuedState.ACTIVE | QueuedState.SUSPENDING:
            if not nodes or (state is QueuedState.SUSPENDING and LOST.issuperset(nodes)):
                return QueuedState.SUSPENDED
            going = any(node is NodeState.DELETING or node in LOST for node in nodes)
            return QueuedState.SUSPENDING if going and state is not QueuedState.SUSPENDING else None
    return None


def initiator(state: QueuedState, before: str, nodes: Collection[NodeState]) -> StateInitiator:
    """Who causes ``state``: users delete, the service does the rest. SUSPENDED is by whom SUSPENDING was."""
    if state is QueuedState.SUSPENDED and nodes:
        return StateInitiator[before]
    by_user = state in (QueuedState.SUSPENDING, QueuedState.SUSPENDED) and not LOST.intersection(nodes)
    return StateInitiator.USER if by_user else StateInitiator.SERVICE


def _from_queue(state: QueuedState, nodes: Collection[NodeState], when: Window, now: float) -> QueuedState | None:
    if now >= when.end:
        return QueuedState.FAILED
    if nodes:  # those of before a reset are still going
        return None
    if now >= when.start:
        return QueuedState.PROVISIONING
    return QueuedState.WAITING_FOR_RESOURCES if state is QueuedState.ACCEPTED else None


def _epoch(moment: datetime) -> float:
    return moment.timestamp()
