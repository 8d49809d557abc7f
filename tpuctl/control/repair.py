"""How is a slice with failed chips repaired? It gets others, spare ones if need be, and starts anew.

The failed ones stay broken in the pod until somebody mends them (`tpuctl fault pod POD CHIP --recover`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from backend.hardware.torus import Coords, shape_3d
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.nodes import NodeState
from tpuctl.control import operations
from tpuctl.control.fleet import Fleet, Part
from tpuctl.control.hosted import kind_of
from tpuctl.control.node_faults import Fate
from tpuctl.control.placing import Placing, wanted_of
from tpuctl.control.pods import chip_of
from tpuctl.store import NodeRow, PodRow, Store, Transaction

REPAIR = "repair"
AGAIN_SECONDS = 5.0
"""Until the next try where there are no chips to repair with."""


def ask(change: Transaction, node: NodeRow, after: float = 0.0) -> NodeRow:
    """Have a slice repaired once ``after`` seconds have passed; once is enough."""
    if any(fate["kind"] == REPAIR for fate in node.faults):
        return node
    fate: Fate = {"fault": "", "kind": REPAIR, "after": after, "seconds": None, "due": change.now + after}
    change.event(node.full_name, "repair asked for", node.health_description or "")
    return change.replace(node, faults=[*node.faults, fate])


def begin(store: Store, placing: Placing, node: NodeRow, failed: list[dict[str, Any]]) -> None:
    """Move a slice away from its ``failed`` parts (telemetry's), and restart it; later, where there is no room."""
    fleet = placing.fleet
    chips = failed_chips(fleet, node, failed)
    parts = moved(fleet, node, chips, store.clock())
    with store.change() as change:
        current = change.node(uid=node.uid)
        if current is None or (current.state, current.faults) != (NodeState.READY, node.faults):
            return
        left = [fate for fate in current.faults if fate["kind"] != REPAIR]
        if not chips:
            change.replace(current, faults=left)
            return
        if parts is None:
            if not all(fate.get("tried") for fate in current.faults if fate["kind"] == REPAIR):
                change.event(node.full_name, "cannot be repaired", "there are no free chips for it; it is tried again")
            again = {"fault": "", "kind": REPAIR, "after": None, "seconds": None, "due": change.now + AGAIN_SECONDS}
            change.replace(current, faults=[*left, again | {"tried": True}])
            return
        for pod, more in chips.items():
            set_broken(change, pod, fleet.broken(pod) | more)
        operation = operations.begin(change, "repair", current)
        change.replace(
            current,
            state=NodeState.RESTARTING,
            operation=operation.name,
            faults=left,
            placement=[part.to_json() for part in parts],
        )
        change.event(node.full_name, f"{node.state} -> {NodeState.RESTARTING}", "repaired with other chips")
    for pod in chips:
        fleet.set_broken(pod, fleet.broken(pod) | chips[pod])
    fleet.take(node.uid, parts)


def failed_chips(fleet: Fleet, node: NodeRow, failed: list[dict[str, Any]]) -> dict[str, frozenset[Coords]]:
    """The chips of pods that the failed parts of a slice are, by pod; of a failed link, its first end."""
    kind, parts = kind_of(node), fleet.parts_of(node.uid)
    shape = shape_3d(kind)
    found: dict[str, set[Coords]] = {}
    for fault in failed if parts else ():
        where = fault["where"][:1] if fault["part"] == "link" else fault.get("chips") or fault["where"]
        part = parts[fault.get("sliceIndex", 0)]
        layout = fleet.pods[part.pod].layout
        for text in where:
            x, y, z = (*map(int, text.split(",")), 0)[:3]
            found.setdefault(part.pod, set()).add(part.placement.chip(layout, shape, (x, y, z)))
    return {pod: frozenset(chips) for pod, chips in found.items()}


def moved(fleet: Fleet, node: NodeRow, broken: dict[str, frozenset[Coords]], now: float) -> list[Part] | None:
    """Where the node's slices lie once those with broken chips have others; None if there is no room."""
    trial = fleet.copy()
    parts = list(trial.parts_of(node.uid))
    trial.release(node.uid)
    for pod, chips in broken.items():
        trial.set_broken(pod, trial.broken(pod) | chips)
    wanted = dataclasses.replace(wanted_of(node), num_slices=1)
    spare = dataclasses.replace(wanted, repair=True)
    for index, part in enumerate(parts):
        hit = trial.pods[part.pod].empty(broken.get(part.pod, ())).taken & part.placement.chips
        trial.take(f"{node.uid}/{index}", [] if hit.any() else [part])
        if hit.any():
            found = trial.find(spare, now) or trial.find(wanted, now)
            if found is None:
                return None
            parts[index] = found[0]
            trial.take(f"{node.uid}/{index}", found)
    return parts


def set_chip(change: Transaction, fleet: Fleet, pod: str, text: str, *, broken: bool) -> frozenset[Coords]:
    """Break a chip of a pod, or mend it; all that are broken then. Raises NotFound, InvalidArgument."""
    if pod not in fleet.pods:
        raise NotFound(f"there is no pod {pod!r}; `tpuctl status pods` shows those there are")
    chip = chip_of(fleet.pods[pod].layout, text)
    if chip in fleet.pods[pod].broken:
        raise InvalidArgument(f"the fleet file says that chip {text} of {pod} is broken; change it there")
    mask = fleet.pods[pod].empty([chip]).taken & ~fleet.pods[pod].empty().taken
    owner = next((uid for uid, part in fleet.parts_in(pod) if (part.placement.chips & mask).any()), None)
    if broken and owner is not None:
        node = change.node(uid=owner)
        name = "" if node is None else node.name
        raise FailedPrecondition(f"chip {text} of {pod} is in slice {name}; break it there: tpuctl fault chip {name}")
    now = fleet.broken(pod) | {chip} if broken else fleet.broken(pod) - {chip}
    set_broken(change, pod, now)
    return now


def set_broken(change: Transaction, pod: str, chips: frozenset[Coords]) -> None:
    """Keep which chips of a pod have broken."""
    row = next((row for row in change.pods() if row.name == pod), None)
    listed = [list(chip) for chip in sorted(chips)]
    if row is None:
        change.insert(PodRow(pod, listed, change.now))
    else:
        change.replace(row, broken=listed)
    change.event(f"pods/{pod}", "chips broken", " ".join(",".join(map(str, chip)) for chip in sorted(chips)))
