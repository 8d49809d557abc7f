"""Who gets which chips, and who must wait or go? Slices are placed as they are made; what is queued for, in order.

Capacity is given to nodes that are being made, then to queued resources in the order of queue_order.py. One that finds
no room holds the place where there will be some first, and others go ahead of it only elsewhere, or if they end before.
On-demand and reserved slices take the place of spot ones, which are given notice first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.hardware import AcceleratorType
from backend.hardware.torus import Coords
from tpuctl.api.errors import ApiError
from tpuctl.api.fleet import FleetFile
from tpuctl.api.names import last, shape_text
from tpuctl.api.nodes import CONTIGUOUS, NodeState
from tpuctl.api.quota import Provisioning
from tpuctl.control.fault_errors import Asked, reservation, stockout
from tpuctl.control.fleet import Fleet, Kept, Part, Wanted
from tpuctl.control.hosted import kind_of
from tpuctl.control.preemption import notice, notified
from tpuctl.control.provisioning import provisioning_of, reservation_of, scheduling_of
from tpuctl.control.queue_order import Candidate, in_order
from tpuctl.store import JobRow, NodeRow, Store

LOOK_AHEAD = 16
"""So many of those who wait are looked at; one that waits for a window that is not open does not count."""


@dataclass(frozen=True)
class Waits:
    """Why a queued resource waits: its place among those who do, and when it may start, if that is known."""

    position: int
    reason: str
    start: float | None


class Placing:
    """Decides for the loop's thread; ``waits`` may be asked from others."""

    def __init__(self, store: Store, fleet: FleetFile) -> None:
        self._store = store
        self.fleet = Fleet(fleet)
        self.grace = fleet.grace_seconds
        self.repair_seconds = fleet.repair_seconds
        self._defragments = fleet.defragment
        self._waits: dict[str, Waits] = {}
        with store.read() as reader:
            placed = {node.uid: node.placement or [] for node in reader.placed_nodes()}
            broken = {pod.name: [(x, y, z) for x, y, z in pod.broken] for pod in reader.pods()}
            reservations = reader.reservations()
        self.fleet.set_reservations(reservations)
        self.fleet.restore(placed, broken)

    def waits(self, full_name: str) -> Waits | None:
        """What a queued resource waits for, when there is no room for it."""
        return self._waits.get(full_name)

    def sync(self, nodes: Collection[NodeRow]) -> None:
        """See which chips have broken, and give back what slices had that are there no more. ``nodes`` are all."""
        with self._store.read() as reader:
            self.fleet.set_reservations(reader.reservations())
            for row in reader.pods():
                chips = frozenset((x, y, z) for x, y, z in row.broken)
                if row.name in self.fleet.pods and chips != self.fleet.broken(row.name):
                    self.fleet.set_broken(row.name, chips)
        there = {node.uid for node in nodes if node.placement is not None}
        for uid in [uid for uid in self.fleet.placed() if uid not in there]:
            self.fleet.release(uid)

    def place(self, node: NodeRow) -> NodeRow | ApiError | None:
        """The node with its place; the error that it fails with; or None while it waits for others to go."""
        wanted = wanted_of(node)
        parts = self.fleet.find(wanted, self._store.clock())
        if parts is not None:
            with self._store.change() as change:
                current = change.node(uid=node.uid)
                if current is None or current.state is not node.state:
                    return None
                placed = change.replace(current, placement=[part.to_json() for part in parts])
                change.event(node.full_name, "placed", ", ".join(sorted({part.pod for part in parts})))
            self.fleet.take(node.uid, parts)
            return placed
        if not is_spot(node.spec) and self._make_way(wanted, node.full_name):
            return None
        asked = Asked("nodes.create", node.project, node.zone, node.name)
        return stockout(asked) if wanted.reservation is None else reservation(asked)

    def admit(self, queue: Sequence[Candidate]) -> dict[str, list[Part]]:
        """Who of those who wait starts now, by uid, and where. Nothing is taken yet."""
        now = self._store.clock()
        starts: dict[str, list[Part]] = {}
        waits: dict[str, Waits] = {}
        kept: dict[str, Kept] = {}
        first: dict[str, str] = {}
        for one in in_order(queue, self._chips_in_use() if queue else {}, LOOK_AHEAD):
            taken = [Kept(part.pod, part.placement.chips, np.inf) for parts in starts.values() for part in parts]
            parts = self.fleet.find(one.wanted, now, [*kept.values(), *taken])
            if parts is not None:
                starts[one.uid] = parts
                continue
            makes_way = not one.spot and self._make_way(one.wanted, one.full_name)
            pool = f"{one.wanted.zone}/{one.wanted.kind.generation.name}"
            hold = self.fleet.soonest(one.wanted, now)
            moved = None if makes_way or one.spot or pool in kept else self._move_others(one, now)
            if moved is not None:
                hold, reason = moved, "slices that can move have been given notice"
            elif makes_way:
                reason = "spot slices that make way have been given notice"
            elif pool in kept and self.fleet.find(one.wanted, now, taken) is not None:
                reason = f"the place is kept for {first[pool]}, which has waited longer"
            else:
                reason = self._reason(one.wanted, now, ever=hold is not None)
            if hold is not None and pool not in kept:
                kept[pool], first[pool] = hold, last(one.full_name)
            start = hold.ready if hold is not None and np.isfinite(hold.ready) else None
            waits[one.full_name] = Waits(len(waits) + 1, reason, start)
        self._waits = waits
        return starts

    def _move_others(self, one: Candidate, now: float) -> Kept | None:
        """The place that is made for a slice by moving others, whose jobs restart; None if that cannot be."""
        if not self._defragments or one.wanted.num_slices != 1:
            return None
        with self._store.read() as reader:
            nodes = {node.uid: node for node in reader.placed_nodes() if node.owner_job and node.num_slices == 1}
            owners = {job.uid: job for job in reader.jobs(uid=frozenset(node.owner_job for node in nodes.values()))}
        movable = {uid: node for uid, node in nodes.items() if _restarts(owners.get(node.owner_job or ""))}
        found = self.fleet.room_by_moving(
            one.wanted, now, {uid: wanted_of(node).request for uid, node in movable.items()}
        )
        if found is None:
            return None
        pod, plan = found
        for move in plan.moves:
            with self._store.change() as change:
                current = change.node(uid=move.name)
                if current is not None and current.state is NodeState.READY and not notified(current):
                    notice(change, current, f"to be moved for {one.full_name}", self.grace)
        return Kept(pod, plan.placement.chips, np.inf)

    def _reason(self, wanted: Wanted, now: float, ever: bool) -> str:
        text = shape_text(wanted.kind.name, wanted.num_slices)
        found = self.fleet.obstacles(wanted, now)
        if not found:
            return f"no pod in {wanted.zone} has {wanted.kind.generation.name}"
        if all(one.never for one in found.values()):
            return f"{text} does not fit in any pod of {wanted.zone}, even an empty one"
        best = max(found.values(), key=lambda one: one.free)
        if not ever:
            return f"no pod of {wanted.zone} has room for {text} beside its broken, reserved and spare chips"
        largest = "none is in one box" if best.largest is None else f"the largest box is {_box(best.largest)}"
        needed = wanted.kind.num_chips * wanted.num_slices
        return f"{text} needs {needed} chips; {best.free} are free, {largest}"

    def _chips_in_use(self) -> Mapping[str, int]:
        """Of each project."""
        chips: dict[str, int] = {}
        with self._store.read() as reader:
            for node in reader.placed_nodes():
                chips[node.project] = chips.get(node.project, 0) + kind_of(node).num_chips * node.num_slices
        return chips

    def _make_way(self, wanted: Wanted, for_whom: str) -> bool:
        """Give notice to spot slices that are in the way; whether there is room once they are gone."""
        with self._store.read() as reader:
            spot = [node for node in reader.placed_nodes() if node.zone == wanted.zone and is_spot(node.spec)]
        spot = [node for node in spot if node.state in (NodeState.READY, NodeState.CREATING)]
        leaving = [node.uid for node in spot if notified(node)]
        now = self._store.clock()
        going = self.fleet.in_the_way(wanted, now, leaving) if leaving else None
        if going is None:
            going = self.fleet.in_the_way(wanted, now, [node.uid for node in spot]) if spot else None
        if going is None:
            return False
        for uid in set(going) - set(leaving):
            with self._store.change() as change:
                current = change.node(uid=uid)
                if current is not None and not notified(current):
                    notice(change, current, f"to make way for {for_whom}", self.grace)
        return True


def _restarts(job: JobRow | None) -> bool:
    """Whether a job goes on elsewhere once its slice is preempted."""
    return job is not None and not job.state.ended and job.plan.get("restart", "never") != "never"


def _box(shape: Coords) -> str:
    return "x".join(map(str, shape))


def wanted_of(node: NodeRow) -> Wanted:
    return wanted_by(node.project, node.zone, kind_of(node), node.num_slices, node.spec)


def wanted_by(project: str, zone: str, kind: AcceleratorType, num_slices: int, spec: Mapping[str, Any]) -> Wanted:
    """What slices need whose node has that ``spec``."""
    end = scheduling_of(spec).termination_timestamp
    return Wanted(
        zone,
        kind,
        num_slices,
        reservation_of(spec),
        contiguous=(spec.get("labels") or {}).get(CONTIGUOUS) == "true",
        until=np.inf if end is None else end.timestamp(),
        project=project,
    )


def is_spot(spec: Mapping[str, Any]) -> bool:
    """Whether a node with that spec may be preempted."""
    return provisioning_of(spec) is Provisioning.SPOT
