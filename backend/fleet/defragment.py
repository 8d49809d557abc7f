"""Which slices would have to move, and where to, so that another fits? As few chips as can be."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from backend.fleet.layout import Masks, Request
from backend.fleet.placement import Placement, apart, free_parts, free_positions, part_of_unit, place, whole_units
from backend.fleet.snapshot import Snapshot

Name = TypeVar("Name", bound=Hashable)
MOST_TRIED = 64
"""Positions that are tried, those with the fewest chips in the way first."""


@dataclass(frozen=True, eq=False)
class Moved(Generic[Name]):
    """A slice that moves ``to``; what it was is ``name``."""

    name: Name
    to: Placement


@dataclass(frozen=True, eq=False)
class Plan(Generic[Name]):
    """All of ``moves`` are made, then the new slice goes to ``placement``."""

    moves: list[Moved[Name]]
    placement: Placement


def make_room(snapshot: Snapshot, request: Request, movable: Mapping[Name, tuple[Request, Masks]]) -> Plan[Name] | None:
    """The moves of fewest chips that make room for a slice; None where none do.

    ``movable`` are slices that may move, as they were asked for and the chips that they have. All that move leave
    their places before the first arrives at its new one.
    """
    held = list(movable.items())
    for target in targets(snapshot, request, [chips for _, (_, chips) in held]):
        moving = [one for one in held if (one[1][1] & target.chips).any()]
        room = snapshot
        for _, (_, chips) in moving:
            room = room.without(chips)
        room = room.with_taken(target.chips)
        moves = []
        for name, (asked, _) in sorted(moving, key=lambda one: -one[1][0].num_chips):
            found = place(room, asked)
            if found is None:
                break
            room = room.with_taken(found.chips)
            moves.append(Moved(name, found))
        else:
            return Plan(moves, target)
    return None


def targets(snapshot: Snapshot, request: Request, movable: list[Masks]) -> Iterator[Placement]:
    """Where the slice could go if others moved, the fewest chips in the way first."""
    layout = snapshot.layout
    can_leave = np.bitwise_or.reduce(movable, axis=0) if movable else np.zeros(layout.num_units, np.uint64)
    kept = snapshot.without(can_leave)
    leaving = snapshot.taken & can_leave
    if layout.is_small(request.shape):
        positions = layout.positions(request.shape, request.rotates)
        fits = free_parts(kept, positions)
        weights = np.bitwise_count(leaving[:, None] & positions.masks)
        for place_ in np.argwhere(fits)[np.argsort(weights[fits], kind="stable")][:MOST_TRIED]:
            yield part_of_unit(layout, positions, int(place_[0]), int(place_[1]))
    elif layout.optical and not request.contiguous:
        units = np.flatnonzero(~kept.used)
        fullness = np.bitwise_count(leaving[units])
        yield from apart(layout, request, units[np.argsort(fullness, kind="stable")])
    else:
        positions = layout.positions(request.shape, request.rotates)
        free = free_positions(kept, positions)
        weights = positions.covers @ np.bitwise_count(leaving).astype(np.int64)
        for index in np.flatnonzero(free)[np.argsort(weights[free], kind="stable")][:MOST_TRIED]:
            yield whole_units(layout, positions, int(index))
