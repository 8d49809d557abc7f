"""How does a slice lose its place? It is given notice, and after a grace period it is PREEMPTED."""

from __future__ import annotations

from tpuctl.control.node_faults import Fate, planned
from tpuctl.store import NodeRow, Transaction

PREEMPT = "preempt"


def notice(change: Transaction, node: NodeRow, why: str, grace: float) -> NodeRow:
    """Say that a slice will be preempted once ``grace`` seconds have passed. ``why``: "to make way for ..."."""
    fate: Fate = {
        "fault": "",
        "kind": PREEMPT,
        "after": grace,
        "seconds": None,
        "due": change.now + grace,
        "why": why,
    }
    change.event(node.full_name, "preemption notice", why)
    return change.replace(node, faults=[*node.faults, fate])


def notified(node: NodeRow) -> bool:
    """Whether a slice has been given notice."""
    return preempted_at(node) is not None


def preempted_why(node: NodeRow) -> str | None:
    """Why a slice that has been given notice is preempted."""
    return next((fate["why"] for fate in node.faults if fate["kind"] == PREEMPT and "why" in fate), None)


def preempted_at(node: NodeRow) -> float | None:
    """When a slice that has been given notice is preempted, in seconds since the epoch; None without a notice."""
    due = [fate["due"] for fate in node.faults if fate["kind"] == PREEMPT and fate["due"] is not None]
    return min(due, default=None)


def leaves_at(node: NodeRow) -> float | None:
    """When its chips are taken from a slice, by preemption or for maintenance; None if that is not planned."""
    fate = planned(node)
    times = [preempted_at(node), None if fate is None else fate["due"]]
    return min((time for time in times if time is not None), default=None)
