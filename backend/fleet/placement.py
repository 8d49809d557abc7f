"""Where in a pod does a slice go? The free position that leaves the most room for others.

Of all free positions, in every rotation, the one is taken that uses up the fewest positions of the shapes that are
commonly asked for, larger ones counting more. Only those count that would be free before the slice ends: so short
slices gather about long ones. A slice smaller than a unit goes into the fullest of the units that it keeps in use no
longer. Where optical switches join the units, a slice of whole ones takes any that are free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from backend.fleet.layout import Bools, Layout, Masks, Positions, Request
from backend.fleet.snapshot import Snapshot, Times
from backend.hardware.torus import Coords

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Placement:
    """The chips that a slice gets: ``chips`` has a number a unit, a bit for each chip.

    ``size`` are the chips along each axis as they lie in the pod; ``origin`` is the first, None for units that only
    switches join.
    """

    size: Coords
    origin: Coords | None
    chips: Masks

    @property
    def num_chips(self) -> int:
        return int(np.bitwise_count(self.chips).sum())

    def chip(self, layout: Layout, shape: Coords, at: Coords) -> Coords:
        """Where in the pod a chip of the slice lies: ``at`` are its coordinates in the slice, which has ``shape``."""
        if self.origin is None:
            units = np.flatnonzero(self.chips)
            grid = [-(-side // unit) for side, unit in zip(shape, layout.unit, strict=True)]
            (x, y, z), within = zip(*(divmod(a, unit) for a, unit in zip(at, layout.unit, strict=True)), strict=True)
            base = layout.chip(int(units[x + grid[0] * (y + grid[1] * z)]), 0)
            x, y, z = (start + step for start, step in zip(base, within, strict=True))
            return x, y, z
        order = next(one for one in itertools.permutations(range(3)) if self.size == tuple(shape[a] for a in one))
        x, y, z = ((self.origin[axis] + at[order[axis]]) % layout.shape[axis] for axis in range(3))
        return x, y, z


def place(snapshot: Snapshot, request: Request, until: float = np.inf) -> Placement | None:
    """The best placement for a slice that lives ``until`` then, by the snapshot's clock; None if there is no room."""
    layout = snapshot.layout
    positions = layout.positions(request.shape, request.rotates)
    if layout.is_small(request.shape):
        return _place_small(snapshot, positions, until)
    if layout.units_of(request.shape) > snapshot.num_free_units:
        return None
    if layout.optical and not request.contiguous:
        return next(apart(layout, request, np.flatnonzero(~snapshot.used)), None)
    free = free_positions(snapshot, positions)
    if not free.any():
        return None
    chosen = _least_harm(snapshot, request, np.flatnonzero(free), until)
    return whole_units(layout, positions, chosen)


def free_positions(snapshot: Snapshot, positions: Positions) -> Bools:
    """Which positions of a shape of whole units are free."""
    free: Bools = np.logical_not((positions.covers & snapshot.used).any(axis=1))
    return free & possible(snapshot, positions) if snapshot.split else free


def possible(snapshot: Snapshot, positions: Positions) -> Bools:
    """Which positions have no failed link between their units."""
    allowed = np.ones(len(positions), np.bool_)
    for one, other in snapshot.split:
        allowed &= ~(positions.covers[:, one] & positions.covers[:, other])
    return allowed


def whole_units(layout: Layout, positions: Positions, index: int) -> Placement:
    """The placement at a position."""
    chips = np.where(positions.covers[index], layout.full_mask, np.uint64(0))
    x, y, z = (at * unit for at, unit in zip(positions.origins[index], layout.unit, strict=True))
    return Placement(positions.sizes[index], (x, y, z), chips)


def _place_small(snapshot: Snapshot, positions: Positions, until: float) -> Placement | None:
    """In a unit that is in use for no less long, the fullest one; where the most larger parts of it stay free."""
    layout = snapshot.layout
    if not len(positions):
        return None
    fits = free_parts(snapshot, positions)
    has_room = fits.any(axis=1)
    if not has_room.any():
        return None
    units = np.flatnonzero(has_room)
    fullness = np.bitwise_count(snapshot.taken[units]).astype(np.int32)
    unit = int(units[np.lexsort((-fullness, _longer(snapshot.used_until[units], until)))[0]])
    after = snapshot.taken[unit] | positions.masks[fits[unit]]
    left = ((after[:, None] & _larger_masks(layout)) == 0).sum(axis=1)
    index = int(np.flatnonzero(fits[unit])[left.argmax()])
    return part_of_unit(layout, positions, unit, index)


def free_parts(snapshot: Snapshot, positions: Positions) -> Bools:
    """Which positions of a small shape are free in which unit: units x positions."""
    fits: Bools = (snapshot.taken[:, None] & positions.masks) == 0
    for unit, pair in snapshot.broken_pairs:
        fits[unit] &= (positions.masks & pair) != pair
    return fits


def part_of_unit(layout: Layout, positions: Positions, unit: int, index: int) -> Placement:
    """The placement at a position of a small shape."""
    chips = np.zeros(layout.num_units, dtype=np.uint64)
    chips[unit] = positions.masks[index]
    base = layout.chip(unit, 0)
    x, y, z = (at + by for at, by in zip(base, positions.origins[index], strict=True))
    return Placement(positions.sizes[index], (x, y, z), chips)


def _longer(used_until: Times, until: float) -> Times:
    """How much longer units would be in use, in seconds; where times are not known, whether they are free now."""
    longer: Times = np.maximum(until - used_until, 0.0) if np.isfinite(until) else 1.0 * (used_until == 0)
    return longer


@cache
def _larger_masks(layout: Layout) -> Masks:
    """The positions of every part of a unit that is asked for."""
    return np.concatenate([layout.positions(shape).masks for shape in layout.parts])


def apart(layout: Layout, request: Request, units: NDArray[np.intp]) -> Iterator[Placement]:
    """The first of ``units``, if they are enough: the switches make the torus."""
    needed = layout.units_of(request.shape)
    if len(units) >= needed:
        chips = np.zeros(layout.num_units, dtype=np.uint64)
        chips[units[:needed]] = layout.full_mask
        yield Placement(request.shape, None, chips)


def _least_harm(snapshot: Snapshot, request: Request, free: NDArray[np.intp], until: float) -> int:
    """Of free positions the one that uses up the fewest of other shapes that would be free before ``until``."""
    if len(free) == 1:
        return int(free[0])
    rivals = _rivals(snapshot.layout)
    longer = snapshot.used & (snapshot.used_until >= until)
    still_free = (rivals.covers @ longer.astype(np.float32)) == 0
    harm = _overlaps(snapshot.layout, request.shape, request.rotates)[free] @ (still_free * rivals.weights)
    return int(free[harm.argmin()])


@dataclass(frozen=True)
class _Rivals:
    """All positions of the shapes worth keeping: ``covers`` is positions x units, ``weights`` what each is worth."""

    covers: Floats
    weights: Floats


@cache
def _rivals(layout: Layout) -> _Rivals:
    tables = [layout.positions(shape) for shape in layout.kept]
    worths = zip(layout.kept, tables, strict=True)
    weights = [np.full(len(table), _worth(shape, len(table)), np.float32) for shape, table in worths]
    covers = np.concatenate([np.zeros((0, layout.num_units), np.bool_), *(table.covers for table in tables)])
    return _Rivals(covers.astype(np.float32), np.concatenate([np.zeros(0, np.float32), *weights]))


def _worth(shape: Coords, count: int) -> float:
    """A shape counts as its chips do, spread over its positions."""
    return math.prod(shape) / count


@cache
def _overlaps(layout: Layout, shape: Coords, rotates: bool) -> Floats:
    """Positions of a shape x rivals: 1 where they have a unit in common."""
    covers = layout.positions(shape, rotates).covers.astype(np.float32)
    return ((covers @ _rivals(layout).covers.T) > 0).astype(np.float32)


def coordinates(layout: Layout, chips: Masks) -> Sequence[Coords]:
    """The chips of a mask a unit."""
    found = []
    for unit in np.flatnonzero(chips):
        mask = int(chips[unit])
        found += [layout.chip(int(unit), bit) for bit in range(layout.chips_per_unit) if mask >> bit & 1]
    return found
