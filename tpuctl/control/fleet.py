"""Where do slices go? All pods with what is in them, in memory; made again from what is stored.

One thread decides and changes; others may read.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.fleet import Placement, Request, Snapshot, place
from backend.fleet.backfill import Waiting, soonest
from backend.fleet.defragment import Plan, make_room, targets
from backend.fleet.layout import Layout, Masks
from backend.fleet.obstacles import Obstacles, obstacles
from backend.hardware import AcceleratorType
from backend.hardware.torus import Coords
from tpuctl.api.errors import InvalidArgument
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.control.pods import Pod, hex_masks, masks_of, nothing, restored, stored
from tpuctl.control.reserved import Reserved, choose, of_row
from tpuctl.store.rows import ReservationRow


@dataclass(frozen=True)
class Wanted:
    """Slices that are to be placed, all or none. ``reservation`` is the one that they are of, "" for any.

    A ``repair`` gets spare chips only. ``until`` is when they end, in seconds since the epoch. ``project`` is
    whose they are, where they are of a reservation; "" for whoever asks.
    """

    zone: str
    kind: AcceleratorType
    num_slices: int = 1
    reservation: str | None = None
    contiguous: bool = False
    repair: bool = False
    until: float = np.inf
    project: str = ""

    @property
    def request(self) -> Request:
        return Request.of(self.kind, contiguous=self.contiguous)


@dataclass(frozen=True, eq=False)
class Part:
    """Where one slice lies. ``until`` is when it ends, if that is known."""

    pod: str
    placement: Placement
    until: float = np.inf

    def to_json(self) -> dict[str, Any]:
        return stored(self.pod, self.placement) | ({"until": self.until} if np.isfinite(self.until) else {})


@dataclass(frozen=True, eq=False)
class Kept:
    """Chips of a pod that are kept for who waits; all of them are free at ``ready``, infinity where it is not known."""

    pod: str
    chips: Masks
    ready: float


class Fleet:
    """Which pods there are, and where each slice lies, by its uid."""

    def __init__(self, fleet: FleetFile) -> None:
        self._elastic = fleet.elastic
        self._specs: dict[tuple[str, str], list[PodSpec]] = {}
        self._names: dict[tuple[str, str], list[str]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._broken: dict[str, frozenset[Coords]] = {}
        self._reservations: list[ReservationRow] = []
        self._snapshots: dict[str, Snapshot] = {}
        self.pods: dict[str, Pod] = {}
        for spec in fleet.pods:
            self._specs.setdefault((spec.zone, spec.generation), []).append(spec)
        for key, specs in self._specs.items():
            for spec in specs:
                self._add(key, spec)

    # What changes

    def restore(self, placed: Mapping[str, list[dict[str, Any]]], broken: Mapping[str, Iterable[Coords]]) -> None:
        """Put slices where they have been, and break chips that have; what is in no pod of today's is left out."""
        for name, chips in broken.items():
            if self._make(name):
                self._broken[name] = frozenset(chips)
        for uid, parts in placed.items():
            known = [said for said in parts if self._make(said["pod"])]
            self.take(uid, [_part(self.pods[said["pod"]], said) for said in known])

    def take(self, uid: str, parts: list[Part]) -> None:
        """A slice lies there from now on."""
        self.release(uid)
        self._parts[uid] = parts
        for part in parts:
            if part.pod in self._snapshots:
                self._snapshots[part.pod] = self._snapshots[part.pod].with_taken(part.placement.chips, part.until)

    def release(self, uid: str) -> None:
        """A slice has gone, if it was there."""
        self._forget(self._parts.pop(uid, []))

    def set_broken(self, pod: str, chips: Iterable[Coords]) -> None:
        """Which chips of a pod have failed: no slice gets them any more."""
        self._broken[pod] = frozenset(chips)
        self._snapshots.pop(pod, None)

    def set_reservations(self, rows: list[ReservationRow]) -> None:
        """All that there are now."""
        self._reservations = rows
        for row in rows:
            for said in row.placement or ():
                self._make(said["pod"])

    def copy(self) -> Fleet:
        """As it is now, for another thread to ask and to change."""
        made = copy.copy(self)
        made._names = {key: list(names) for key, names in self._names.items()}
        made._parts, made._broken = dict(self._parts), dict(self._broken)
        made._snapshots, made.pods = dict(self._snapshots), dict(self.pods)
        return made

    # What is asked

    def parts_of(self, uid: str) -> list[Part]:
        return self._parts.get(uid, [])

    def parts_in(self, pod: str) -> list[tuple[str, Part]]:
        """The uids of the slices in a pod, with what they have there."""
        every = list(self._parts.items())
        return [(uid, part) for uid, parts in every for part in parts if part.pod == pod]

    def placed(self) -> Collection[str]:
        return self._parts.keys()

    def broken(self, pod: str) -> frozenset[Coords]:
        return self._broken.get(pod, frozenset())

    def snapshot(self, name: str) -> Snapshot:
        """A pod with all that is in it."""
        found = self._snapshots.get(name)
        if found is None:
            found = self.pods[name].empty(self.broken(name))
            for _, part in self.parts_in(name):
                found = found.with_taken(part.placement.chips, part.until)
            self._snapshots[name] = found
        return found

    def reserved(self, pod: str, now: float) -> list[Reserved]:
        """The parts of a pod that are kept for reservations now."""
        return [part for part in self._parts_reserved(pod) if part.is_active(now)]

    def _parts_reserved(self, pod: str) -> Iterator[Reserved]:
        one = self.pods[pod]
        rows = {row.name: row for row in self._reservations if row.zone == one.zone}
        for part in one.reserved:
            yield of_row(rows[part.reservation], part.chips) if part.reservation in rows else part
        for row in rows.values():
            for said in row.placement or ():
                if said["pod"] == pod:
                    yield of_row(row, masks_of(one.layout, said["chips"]))

    def withheld(self, pod: str, wanted: Wanted | None, now: float) -> Masks:
        """The chips that a slice may not have, though they may be free; None: any that is of no reservation.

        Where chips are kept for reservations, a reserved slice gets only those. A repair gets spare chips only.
        """
        one = self.pods[pod]
        if one.drains(now):
            return np.full(one.layout.num_units, one.layout.full_mask, np.uint64)
        if wanted is not None and wanted.repair:
            return ~one.spare & one.layout.full_mask
        kept = self.reserved(pod, now)
        if wanted is None or wanted.reservation is None:
            return _joined(one.layout, [one.spare, *(part.chips for part in kept)])
        if not any(self.reserved(name, now) for name in self._names[one.zone, one.layout.generation.name]):
            return one.spare
        own = [part.chips for part in kept if part.is_for(wanted.reservation, wanted.project)]
        return one.spare | (~_joined(one.layout, own) & one.layout.full_mask)

    def reserve(self, zone: str, generation: str, chips: int) -> list[dict[str, Any]] | None:
        """Free chips of a pod that no reservation has at any time, as JSON; None if no pod has so many."""
        for name in self._pods((zone, generation)):
            pod, room = self.pods[name], self.snapshot(name)
            others = [part.chips for part in self._parts_reserved(name)]
            found = choose(room.with_taken(_joined(pod.layout, [pod.spare, *others]) & ~room.taken), chips)
            if found is not None:
                return [{"pod": name, "chips": hex_masks(found)}]
        return None

    def named(self, zone: str, generation: str, reservation: str) -> int:
        """How many chips the fleet file names for a reservation."""
        names = self._names.get((zone, generation), ())
        parts = [part for name in names for part in self.pods[name].reserved if part.reservation == reservation]
        return sum(int(np.bitwise_count(part.chips).sum()) for part in parts)

    def find(self, wanted: Wanted, now: float, kept: Iterable[Kept] = ()) -> list[Part] | None:
        """Where the slices can lie now; None if there is no room for all.

        What is ``kept`` for others is used only until they need it.
        """
        kept = [one for one in kept if not wanted.until <= one.ready or not np.isfinite(one.ready)]
        found: list[Part] = []
        for _ in range(wanted.num_slices):
            for name, room, _ in self._rooms(wanted, now):
                others = [*(one.chips for one in kept if one.pod == name), *_chips(found, name)]
                free = room.with_taken(np.bitwise_or.reduce(others) & ~room.taken) if others else room
                placement = place(free, wanted.request, wanted.until)
                if placement is not None:
                    found.append(Part(name, placement, wanted.until))
                    break
            else:
                return None
        return found

    def soonest(self, wanted: Wanted, now: float) -> Kept | None:
        """The place that is free first; where that is not known, the one with the fewest chips in the way.

        None if there will be none even when all slices have gone.
        """
        found: list[tuple[float, int, Kept]] = []
        for name, room, withheld in self._rooms(wanted, now):
            for hold in soonest(room, Waiting(wanted.request)):
                found.append((hold.ready, 0, Kept(name, hold.chips, hold.ready)))
            slices = [part.placement.chips & ~withheld for _, part in self.parts_in(name)]
            target = next(targets(room, wanted.request, slices), None)
            if target is not None:
                count = int(np.bitwise_count(room.taken & target.chips).sum())
                found.append((np.inf, count, Kept(name, target.chips, np.inf)))
        return min(found, key=lambda one: one[:2])[2] if found else None

    def obstacles(self, wanted: Wanted, now: float) -> dict[str, Obstacles]:
        """For each pod, what keeps one of the slices out."""
        return {name: obstacles(room, wanted.request) for name, room, _ in self._rooms(wanted, now)}

    def room_by_moving(
        self, wanted: Wanted, now: float, movable: Mapping[str, Request], pods: Collection[str] | None = None
    ) -> tuple[str, Plan[str]] | None:
        """The pod, one of ``pods``, and the moves in it that make room for a slice; ``movable`` (by uid) may move."""
        for name, room, withheld in self._rooms(wanted, now):
            if pods is not None and name not in pods:
                continue
            there = {
                uid: (request, part.placement.chips & ~withheld)
                for uid, request in movable.items()
                for part in self.parts_of(uid)
                if part.pod == name and len(self.parts_of(uid)) == 1
            }
            plan = make_room(room, wanted.request, there)
            if plan is not None:
                return name, plan
        return None

    def in_the_way(self, wanted: Wanted, now: float, removable: Collection[str]) -> list[str] | None:
        """The slices, of those that may go, that must for one slice to fit: as few chips as can be. None if none do."""
        best: tuple[int, list[str]] | None = None
        for name, room, withheld in self._rooms(wanted, now):
            there = {uid: chips & ~withheld for uid in removable for chips in _chips(self.parts_of(uid), name)}
            target = next(targets(room, wanted.request, list(there.values())), None)
            if target is None:
                continue
            going = [uid for uid, chips in there.items() if (chips & target.chips).any()]
            count = int(np.bitwise_count(room.taken & target.chips).sum())
            best = min(best or (count, going), (count, going))
        return None if best is None else best[1]

    def _rooms(self, wanted: Wanted, now: float) -> Iterator[tuple[str, Snapshot, Masks]]:
        """The pods where a slice may lie, with what it may not have taken, and that by itself."""
        for name in self._pods((wanted.zone, wanted.kind.generation.name), grow=not wanted.repair):
            withheld = self.withheld(name, wanted, now)
            yield name, self.snapshot(name).with_taken(withheld), withheld

    def _pods(self, key: tuple[str, str], grow: bool = True) -> Iterator[str]:
        """Those of a zone and generation; in the end a new one, if there can be and the last is not empty."""
        yield from list(self._names.get(key, ()))
        names = self._names.get(key)
        if self._elastic and grow and names and self._is_begun(names[-1]):
            yield self._add(key, self._specs[key][0].model_copy(update={"name": None}))

    def _is_begun(self, pod: str) -> bool:
        """Whether something is in it, or kept."""
        return bool(self.snapshot(pod).taken.any()) or any(True for _ in self._parts_reserved(pod))

    # Pods

    def _add(self, key: tuple[str, str], spec: PodSpec) -> str:
        names = self._names.setdefault(key, [])
        name = spec.name or _default_name(key, len(names))
        if name in self.pods:
            raise InvalidArgument(f"there are two pods {name}; give each a name of its own")
        self.pods[name] = Pod.of(spec, name)
        names.append(name)
        return name

    def _make(self, name: str) -> bool:
        """Whether there is a pod of that name; an elastic fleet makes those up to it again."""
        for key in self._specs if self._elastic and name not in self.pods else ():
            stem = _default_name(key, 0)
            number = name.removeprefix(f"{stem}-")
            while name.startswith(stem) and number.isdigit() and len(self._names[key]) < int(number):
                self._add(key, self._specs[key][0].model_copy(update={"name": None}))
        return name in self.pods

    def _forget(self, parts: list[Part]) -> None:
        for part in parts:
            self._snapshots.pop(part.pod, None)


def _default_name(key: tuple[str, str], number: int) -> str:
    zone, generation = key
    return f"{generation}-{zone}" if number == 0 else f"{generation}-{zone}-{number + 1}"


def _joined(layout: Layout, chips: list[Masks]) -> Masks:
    found: Masks = np.bitwise_or.reduce([nothing(layout), *chips])
    return found


def _chips(parts: list[Part], pod: str) -> list[Masks]:
    return [part.placement.chips for part in parts if part.pod == pod]


def _part(pod: Pod, said: dict[str, Any]) -> Part:
    return Part(pod.name, restored(pod.layout, said), said.get("until", np.inf))
