"""Who gets which chips, and who must wait or go? Slices are placed as they are made; what is queued for, in order.

Capacity is given to nodes that are being made, then to queued resources in the order of queue_order.py. One that finds
no room holds the place where there will be some first, and others go ahead of it only elsewhere, or if they end before.
On-demand and reserved slices take the place of spot ones, which are given notice first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from backend.hardware import AcceleratorType, accelerator_type
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


@dataclass(frozen=True)
class _Waiting:
    """One who has found no room: what is being done about it, if anything, and for whom a place is kept before it."""

    position: int
    wanted: Wanted
    done: str = ""
    first: str | None = None


class Placing:
    """Decides for the loop's thread; ``waits`` may be asked from others."""

    def __init__(self, store: Store, fleet: FleetFile) -> None:
        self._store = store
        self.fleet = Fleet(fleet)
        self.grace = fleet.grace_seconds
        self.repair_seconds = fleet.repair_seconds
        self._defragments = fleet.defragment
        self._waiting: dict[str, _Waiting] = {}
        with store.read() as reader:
            placed = {node.uid: node.placement or [] for node in reader.placed_nodes()}
            broken = {pod.name: [(x, y, z) for x, y, z in pod.broken] for pod in reader.pods()}
            reservations = reader.reservations()
        self.fleet.set_reservations(reservations)
        self.fleet.restore(placed, broken)

    def waits(self, full_name: str) -> Waits | None:
        """What a queued resource waits for, when there is no room for it."""
        one = self._waiting.get(full_name)
        if one is None:
            return None
        fleet, now = self.fleet.copy(), self._store.clock()
        hold = fleet.soonest(one.wanted, now)
        start = hold.ready if hold is not None and np.isfinite(hold.ready) else None
        if one.done:
            return Waits(one.position, one.done, start)
        if one.first is not None and fleet.find(one.wanted, now) is not None:
            return Waits(one.position, f"the place is kept for {one.first}, which has waited longer", start)
        return Waits(one.position, _reason(fleet, one.wanted, now, ever=hold is not None), start)

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
        if not is_spot(node.spec) and self._make_way(wanted, node.full_name, self._spot_nodes(node.zone)):
            return None
        asked = Asked("nodes.create", node.project, node.zone, node.name)
        return stockout(asked) if wanted.reservation is None else reservation(asked)

    def admit(self, queue: Sequence[Candidate]) -> dict[str, list[Part]]:
        """Who of those who wait starts now, by uid, and where. Nothing is taken yet."""
        if not queue:
            self._waiting = {}
            return {}
        now = self._store.clock()
        starts: dict[str, list[Part]] = {}
        waiting: dict[str, _Waiting] = {}
        kept: dict[str, Kept] = {}
        first: dict[str, str] = {}
        taken: list[Kept] = []
        full: set[Wanted] = set()  # the same finds no room later on either: there is only less
        spot = cache(self._spot_nodes)
        for one in in_order(queue, self._chips_in_use(), LOOK_AHEAD):
            parts = None if one.wanted in full else self.fleet.find(one.wanted, now, [*kept.values(), *taken])
            if parts is not None:
                starts[one.uid] = parts
                taken += [Kept(part.pod, part.placement.chips, np.inf) for part in parts]
                continue
            full.add(one.wanted)
            pool, done, hold = f"{one.wanted.zone}/{one.wanted.kind.generation.name}", "", None
            if not one.spot and self._make_way(one.wanted, one.full_name, spot(one.wanted.zone)):
                done = "spot slices that make way have been given notice"
            elif not one.spot and pool not in kept:
                hold = self._move_others(one, now)
                done = "" if hold is None else "slices that can move have been given notice"
            waiting[one.full_name] = _Waiting(len(waiting) + 1, one.wanted, done, first.get(pool))
            if pool not in kept:
                hold = hold or self.fleet.soonest(one.wanted, now)
                if hold is not None:
                    kept[pool], first[pool] = hold, last(one.full_name)
        self._waiting = waiting
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

    def _chips_in_use(self) -> Mapping[str, int]:
        """Of each project."""
        chips: dict[str, int] = {}
        with self._store.read() as reader:
            for project, kind, topology, slices in reader.placed_alike():
                size = accelerator_type(kind, topology).num_chips * slices
                chips[project] = chips.get(project, 0) + size
        return chips

    def _spot_nodes(self, zone: str) -> list[NodeRow]:
        """Those that may be given notice, or have been."""
        with self._store.read() as reader:
            found = [node for node in reader.placed_with_scheduling(zone) if is_spot(node.spec)]
        return [node for node in found if node.state in (NodeState.READY, NodeState.CREATING)]

    def _make_way(self, wanted: Wanted, for_whom: str, spot: list[NodeRow]) -> bool:
        """Give notice to those of ``spot`` that are in the way; whether there is room once they are gone."""
        leaving = [node.uid for node in spot if notified(node)]
        now = self._store.clock()
        going = self.fleet.in_the_way(wanted, now, leaving) if leaving else None
        if going is None:
            going = self.fleet.in_the_way(wanted, now, [node.uid for node in spot]) if spot else None
        if going is None:
            return False
        for index, node in enumerate(spot):
            if node.uid in going and node.uid not in leaving:
                with self._store.change() as change:
                    current = change.node(uid=node.uid)
                    if current is not None and not notified(current):
                        spot[index] = notice(change, current, f"to make way for {for_whom}", self.grace)
        return True


def _restarts(job: JobRow | None) -> bool:
    """Whether a job goes on elsewhere once its slice is preempted."""
    return job is not None and not job.state.ended and job.plan.get("restart", "never") != "never"


def _reason(fleet: Fleet, wanted: Wanted, now: float, ever: bool) -> str:
    text = shape_text(wanted.kind.name, wanted.num_slices)
    needed = wanted.kind.num_chips * wanted.num_slices
    found = fleet.obstacles(wanted, now)
    if not found:
        return f"no pod in {wanted.zone} has {wanted.kind.generation.name}"
    if all(one.never for one in found.values()):
        return f"{text} does not fit in any pod of {wanted.zone}, even an empty one"
    best = max(found.values(), key=lambda one: one.free)
    if not ever:
        return f"no pod of {wanted.zone} has room for {text} beside its broken, reserved and spare chips"
    if best.free == 0:
        return f"{text} needs {needed} chips; all are in use"
    largest = "none is in one box" if best.largest is None else f"the largest box is {_box(best.largest)}"
    return f"{text} needs {needed} chips; {best.free} are free, {largest}"


def _box(shape: Coords) -> str:
    return "x".join(map(str, shape))


def wanted_of(node: NodeRow) -> Wanted:
    return wanted_by(node.project, node.zone, kind_of(node), node.num_slices, node.spec)


def wanted_by(project: str, zone: str, kind: AcceleratorType, num_slices: int, spec: Mapping[str, Any]) -> Wanted:
    """What slices need whose node has that ``spec``."""
    end, reservation = scheduling_of(spec).termination_timestamp, reservation_of(spec)
    return Wanted(
        zone,
        kind,
        num_slices,
        reservation,
        contiguous=(spec.get("labels") or {}).get(CONTIGUOUS) == "true",
        until=np.inf if end is None else end.timestamp(),
        project="" if reservation is None else project,
    )


def is_spot(spec: Mapping[str, Any]) -> bool:
    """Whether a node with that spec may be preempted."""
    return provisioning_of(spec) is Provisioning.SPOT
