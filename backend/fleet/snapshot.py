"""Which chips of a pod are free? What a placement is decided on: a value that never changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backend.fleet.layout import Bools, Layout, Masks
from backend.hardware.torus import Coords

Times = NDArray[np.float64]
Link = tuple[Coords, Coords]
"""The coordinates of two chips that are linked."""


@dataclass(frozen=True)
class Snapshot:
    """A pod with what of it cannot be had.

    ``taken`` has a number a unit: a bit for each of its chips that is in use, broken or kept for others.
    ``until`` says for each chip of each unit how long, in seconds of any clock: 0 for one that is free, infinity where
    it is not known. ``links`` have failed: no slice has both of their ends.
    """

    layout: Layout
    taken: Masks
    until: Times
    links: tuple[Link, ...] = field(default=())

    @classmethod
    def empty(cls, layout: Layout, broken: Iterable[Coords] = (), links: Iterable[Link] = ()) -> Snapshot:
        """A pod with nothing in it but what is ``broken``."""
        taken = np.zeros(layout.num_units, dtype=np.uint64)
        for chip in broken:
            unit, bit = layout.unit_of(chip)
            taken[unit] |= np.uint64(1 << bit)
        until = np.where(_bits(layout, taken), np.inf, 0.0)
        return cls(layout, taken, until, tuple(links))

    def with_taken(self, chips: Masks, until: float = np.inf) -> Snapshot:
        """The pod once ``chips``, a mask a unit, are taken too, for so long."""
        if not chips.any():
            return self
        return Snapshot(self.layout, self.taken | chips, self._times(chips, until), self.links)

    def without(self, chips: Masks) -> Snapshot:
        """The pod once ``chips`` are free again."""
        return Snapshot(self.layout, self.taken & ~chips, self._times(chips, 0.0), self.links)

    def _times(self, chips: Masks, until: float) -> Times:
        times = self.until.copy()
        units = chips.nonzero()[0]
        times[units] = np.where(_bits(self.layout, chips[units]), until, times[units])
        return times

    @cached_property
    def used_until(self) -> Times:
        """For each unit, when all of it is free; 0 for one that is."""
        times: Times = self.until.max(axis=1)
        for unit, _ in self.broken_pairs:
            times[unit] = np.inf
        return times

    @cached_property
    def used(self) -> Bools:
        """Units that are not wholly free, or have a failed link within."""
        used: Bools = self.taken != 0
        for unit, _ in self.broken_pairs:
            used[unit] = True
        return used

    @cached_property
    def num_free_units(self) -> int:
        return self.layout.num_units - int(np.count_nonzero(self.used))

    @property
    def num_free_chips(self) -> int:
        return self.layout.num_chips - int(np.bitwise_count(self.taken).sum())

    @cached_property
    def _within(self) -> list[Link]:
        return [link for link in self.links if self.layout.unit_of(link[0])[0] == self.layout.unit_of(link[1])[0]]

    @cached_property
    def split(self) -> list[tuple[int, int]]:
        """Pairs of units that no slice can have both: the link between them has failed."""
        ends = [(self.layout.unit_of(one)[0], self.layout.unit_of(other)[0]) for one, other in self.links]
        return [(one, other) for one, other in ends if one != other]

    @cached_property
    def broken_pairs(self) -> list[tuple[int, np.uint64]]:
        """Units with the bits of two chips in them whose link has failed."""
        pairs = []
        for one, other in self._within:
            unit, bit = self.layout.unit_of(one)
            pairs.append((unit, np.uint64(1 << bit | 1 << self.layout.unit_of(other)[1])))
        return pairs


def _bits(layout: Layout, chips: Masks) -> Bools:
    """For masks of units: units x chips of a unit."""
    octets = chips.view(np.uint8).reshape(len(chips), 8)
    bits = np.unpackbits(octets, axis=1, count=layout.chips_per_unit, bitorder="little")
    return bits.view(np.bool_)
