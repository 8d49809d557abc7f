"""Which chips of pods are kept for reservations, and who gets them?

Those that a fleet file names, and those that are chosen as a reservation is made: whole units where it is large enough,
cubes that switches join or one box of tiles. Slices that have them already stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backend.fleet import Layout, Request, Snapshot, place
from backend.fleet.layout import Masks
from tpuctl.store.rows import ReservationRow


@dataclass(frozen=True, eq=False)
class Reserved:
    """Chips of a pod, a number a unit, for slices of a reservation that are of one of its projects (None: of any).

    ``start`` and ``end`` are in seconds since the epoch.
    """

    reservation: str
    chips: Masks
    projects: frozenset[str] | None = None
    start: float = -math.inf
    end: float = math.inf

    def is_active(self, now: float) -> bool:
        return self.start <= now < self.end

    def is_for(self, reservation: str, project: str) -> bool:
        """Whether a slice of that reservation, "" for any, and of that project, "" for whoever asks, gets them."""
        allowed = self.projects is None or project == "" or project in self.projects
        return allowed and is_meant(self.reservation, reservation)


def is_meant(name: str, wanted: str) -> bool:
    """Whether a reservation is the one that is asked for; "" or "-" is any."""
    return wanted in ("", "-", name)


def of_row(row: ReservationRow, chips: Masks) -> Reserved:
    """Chips that are kept for a reservation that somebody has made."""
    projects = frozenset([row.project, *row.shared_with])
    return Reserved(row.name, chips, projects, row.start_time, math.inf if row.end_time is None else row.end_time)


def choose(room: Snapshot, chips: int) -> Masks | None:
    """At least so many free chips of a pod; None if it has no room for them."""
    layout, unit = room.layout, room.layout.chips_per_unit
    whole, rest = divmod(chips, unit)
    if not whole:
        return _part(room, rest)
    if not layout.optical:
        return _box(room, -(-chips // unit))
    units = np.flatnonzero(~room.used)[:whole]
    if len(units) < whole:
        return None
    found = np.zeros(layout.num_units, np.uint64)
    found[units] = layout.full_mask
    if rest:
        more = _part(room.with_taken(found), rest)
        return None if more is None else found | more
    return found


def _part(room: Snapshot, chips: int) -> Masks | None:
    """The smallest part of a unit that has so many chips, or a unit."""
    for shape in (*room.layout.parts, room.layout.unit):
        if math.prod(shape) >= chips:
            found = place(room, Request(shape))
            if found is not None:
                return found.chips
    return None


def _box(room: Snapshot, units: int) -> Masks | None:
    """The smallest free box of at least so many units, the squarest of those."""
    for x, y in _sizes(room.layout, units):
        found = place(room, Request((x * room.layout.unit[0], y * room.layout.unit[1], 1), rotates=False))
        if found is not None:
            return found.chips
    return None


def _sizes(layout: Layout, units: int) -> Iterator[tuple[int, int]]:
    """Boxes of at least so many units, small ones first."""
    width, height, _ = layout.grid
    every = ((x, y) for x in range(1, width + 1) for y in range(1, height + 1) if x * y >= units)
    yield from sorted(every, key=lambda size: (size[0] * size[1], abs(size[0] - size[1])))
