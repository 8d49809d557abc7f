"""What becomes of slices whose pod is under maintenance? They are told before; then they move to another, or end.

A slice that moves restarts with other chips; one for which there are none is TERMINATED, a spot one PREEMPTED. That is
said to users as Compute Engine says it: in the node, in the metadata server, and by a signal to the job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tpuctl.api.nodes import NodeState
from tpuctl.control import operations
from tpuctl.control.fleet import Fleet, Part
from tpuctl.control.node_faults import MAINTENANCE, Fate, planned
from tpuctl.control.placing import Placing, is_spot, wanted_of
from tpuctl.store import NodeRow, Store

ANNOUNCED_SECONDS = 3600.0
"""So long before at most, nodes say what is planned for them."""


def announce(store: Store, placing: Placing, nodes: Iterable[NodeRow]) -> None:
    """Tell slices of the windows that their pods have next. ``nodes`` are all there are."""
    now = store.clock()
    near: dict[str, tuple[float, float]] = {}
    for name, one_pod in list(placing.fleet.pods.items()):
        windows = [one for one in one_pod.maintenance if one[0] - ANNOUNCED_SECONDS <= now < one[1]]
        near |= {name: min(windows)} if windows else {}
    if not near:
        return
    for node in nodes:
        found = [(near[part.pod], part.pod) for part in placing.fleet.parts_of(node.uid) if part.pod in near]
        if found and node.state is NodeState.READY and planned(node) is None:
            (start, end), pod = min(found)
            due = max(start, now + placing.grace)
            fate: Fate = {
                "fault": "",
                "kind": MAINTENANCE,
                "after": None,
                "seconds": None,
                "due": due,
                "end": end,
                "pod": pod,
            }
            with store.change() as change:
                current = change.node(uid=node.uid)
                if current is not None and current.state is NodeState.READY and planned(current) is None:
                    change.event(node.full_name, "maintenance planned", f"of pod {pod}")
                    change.replace(current, faults=[*current.faults, fate])


def begin(store: Store, placing: Placing, node: NodeRow) -> None:
    """Its pod goes: the node gets chips of another and restarts, or it ends."""
    fate = planned(node)
    parts = None if is_spot(node.spec) else _elsewhere(placing.fleet, node, store.clock())
    with store.change() as change:
        current = change.node(uid=node.uid)
        if fate is None or current is None or (current.state, current.faults) != (NodeState.READY, node.faults):
            return
        why, left = f"maintenance of pod {fate['pod']}", [one for one in current.faults if one is not fate]
        if parts is not None:
            operation = operations.begin(change, "restart", current)
            placement = [part.to_json() for part in parts]
            change.replace(
                current, state=NodeState.RESTARTING, operation=operation.name, faults=left, placement=placement
            )
            change.event(node.full_name, f"{node.state} -> {NodeState.RESTARTING}", f"moved for {why}")
        else:
            state = NodeState.PREEMPTED if is_spot(node.spec) else NodeState.TERMINATED
            change.replace(
                current, state=state, operation=None, faults=[], placement=None, health_description=f"ended for {why}"
            )
            change.event(node.full_name, f"{node.state} -> {state}", why)
    if parts is None:
        placing.fleet.release(node.uid)
    else:
        placing.fleet.take(node.uid, parts)


def _elsewhere(fleet: Fleet, node: NodeRow, now: float) -> list[Part] | None:
    """The node's slices with others for those whose pod is under maintenance; None if there is no room."""
    trial = fleet.copy()
    parts = trial.parts_of(node.uid)
    stays = [part for part in parts if not trial.pods[part.pod].drains(now)]
    trial.take(node.uid, stays)
    count = len(parts) - len(stays)
    wanted = wanted_of(node)
    found = trial.find(dataclasses.replace(wanted, num_slices=count), now) if count else []
    if found is None:
        return None
    others = iter(found)
    return [part if part in stays else next(others) for part in parts]
