"""Why is there no room for a slice? What is free, and where the least would have to go."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backend.fleet.layout import Layout, Masks, Request
from backend.fleet.placement import free_positions, possible
from backend.fleet.snapshot import Snapshot
from backend.hardware.torus import Coords


@dataclass(frozen=True, eq=False)
class Obstacles:
    """What keeps a slice out of a pod.

    ``never`` says that it would not fit in the empty pod. ``largest`` is the largest box of a common shape that is
    free. ``position``, a mask a unit, is where the fewest chips are in the way, and ``chips`` are those.
    """

    needed: int
    free: int
    never: bool
    largest: Coords | None
    position: Masks
    chips: Masks


def obstacles(snapshot: Snapshot, request: Request) -> Obstacles:
    """What keeps a slice out that ``place`` finds no room for."""
    layout = snapshot.layout
    found = _emptiest(snapshot, request)
    position = np.zeros(layout.num_units, np.uint64) if found is None else found
    return Obstacles(
        request.num_chips,
        snapshot.num_free_chips,
        found is None,
        largest_free(snapshot),
        position,
        snapshot.taken & position,
    )


def largest_free(snapshot: Snapshot) -> Coords | None:
    """The largest of the shapes worth keeping, or of a unit's parts, that is free."""
    layout = snapshot.layout
    for shape in sorted(layout.kept, key=math.prod, reverse=True):
        if free_positions(snapshot, layout.positions(shape)).any():
            return shape
    for shape in sorted(layout.parts, key=math.prod, reverse=True):
        if ((snapshot.taken[:, None] & layout.positions(shape).masks) == 0).any():
            return shape
    return None


def _emptiest(snapshot: Snapshot, request: Request) -> Masks | None:
    """The position with the fewest chips in the way; None if there is no position."""
    layout, taken = snapshot.layout, snapshot.taken
    if layout.is_small(request.shape):
        masks = layout.positions(request.shape, request.rotates).masks
        if not len(masks):
            return None
        counts = np.bitwise_count(taken[:, None] & masks)
        unit, index = np.unravel_index(counts.argmin(), counts.shape)
        return _only(layout, int(unit), int(masks[index]))
    if layout.optical and not request.contiguous:
        needed = layout.units_of(request.shape)
        if needed > layout.num_units:
            return None
        chosen = np.zeros(layout.num_units, np.bool_)
        chosen[np.argsort(np.bitwise_count(taken), kind="stable")[:needed]] = True
    else:
        positions = layout.positions(request.shape, request.rotates)
        allowed = possible(snapshot, positions)
        if not allowed.any():
            return None
        counts = np.where(allowed, positions.covers @ np.bitwise_count(taken).astype(np.int64), layout.num_chips)
        chosen = positions.covers[counts.argmin()]
    return np.where(chosen, layout.full_mask, np.uint64(0))


def _only(layout: Layout, unit: int, mask: int) -> Masks:
    chips = np.zeros(layout.num_units, np.uint64)
    chips[unit] = mask
    return chips
