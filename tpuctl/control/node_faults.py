"""What befalls a node by the API's faults? Each fate has its time, and what it does is worked out from that."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from tpuctl.api.nodes import MaintenanceStatus, MaintenanceType, NodeHealth, NodeState, UpcomingMaintenance
from tpuctl.control.node_states import health_of
from tpuctl.store import ApiFaultRow, NodeRow

Fate = dict[str, Any]
MAINTENANCE = "maintenance"
"""The kind of the fate of a node whose pod has a maintenance window; it says the window's ``end`` and the ``pod``."""
UNHEALTHY_TEXT = "the health check of the TPU runtime fails"


class Phase(Enum):
    """Where a fate is."""

    WAITING = auto()  # for its node to be READY
    COMING = auto()
    NOW = auto()
    OVER = auto()


def new_fate(rule: ApiFaultRow) -> Fate:
    """``due`` is when it is to happen, in seconds since the epoch; None until its node is READY.

    That of one with a ``step`` is None until the node's job has reached it (job_notice.py).
    """
    fate: Fate = {"fault": rule.id, "kind": rule.kind, "after": rule.after, "seconds": rule.seconds, "due": None}
    return fate if rule.at_step is None else fate | {"step": rule.at_step}


def phase(fate: Fate, now: float) -> Phase:
    if fate.get("cleared"):
        return Phase.OVER
    if fate["due"] is None:
        return Phase.WAITING
    if now < fate["due"]:
        return Phase.COMING
    return Phase.OVER if fate["seconds"] is not None and now >= fate["due"] + fate["seconds"] else Phase.NOW


def strikes_now(node: NodeRow, kind: str, now: float) -> bool:
    """Whether a fault of that kind is at work on the node, which is READY."""
    return node.state is NodeState.READY and any(
        fate["kind"] == kind and phase(fate, now) is Phase.NOW for fate in node.faults
    )


def next_fates(node: NodeRow, now: float) -> list[Fate]:
    """Its fates without those that are over; when the node is READY the time of those that waited begins."""
    left = [fate for fate in node.faults if phase(fate, now) is not Phase.OVER]
    if node.state is not NodeState.READY:
        return left
    return [
        fate | {"due": now + (fate["after"] or 0.0)} if fate["due"] is None and fate.get("step") is None else fate
        for fate in left
    ]


def node_health(node: NodeRow, now: float) -> tuple[NodeHealth | None, str | None]:
    """The node's health, and what there is to say of it."""
    if strikes_now(node, "unhealthy", now):
        return NodeHealth.UNHEALTHY_MAINTENANCE, node.health_description or UNHEALTHY_TEXT
    return health_of(node.state, node.health_description), node.health_description


def planned(node: NodeRow) -> Fate | None:
    """The maintenance that a node has been told of."""
    return next((fate for fate in node.faults if fate["kind"] == MAINTENANCE), None)


def upcoming(node: NodeRow, now: float) -> dict[str, Any] | None:
    """As Cloud TPU's API shows it, in JSON."""
    fate = planned(node)
    if fate is None:
        return None
    return UpcomingMaintenance(
        type=MaintenanceType.SCHEDULED,
        can_reschedule=False,
        window_start_time=_text(fate["due"]),
        window_end_time=_text(fate["end"]),
        latest_window_start_time=_text(fate["due"]),
        maintenance_status=MaintenanceStatus.ONGOING if now >= fate["due"] else MaintenanceStatus.PENDING,
    ).to_json()


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
