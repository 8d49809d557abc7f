"""Which links does traffic take? The links of a slice as arrays, dimension-ordered routes, and ways around a failure.

A link is known by its number: axis * chips + the chip from which it leads forward. Chips count x fastest, and over all
slices of a multislice, which no link joins. Loads are arrays (2, links): what a link carries forward and backward.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from backend.errors import Unavailable
from backend.hardware import AcceleratorType, Torus
from backend.ici.faults import NO_FAULTS, Faults

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Path = list[tuple[int, int]]
"""Links in order, each with the way it is used: 0 forward, 1 backward."""


class Routes:
    """The links of ``slices`` equal slices, less those that ``faults`` has broken."""

    def __init__(self, kind: AcceleratorType, slices: int = 1, faults: Faults = NO_FAULTS) -> None:
        torus = Torus(kind)
        self.kind, self.shape, self.wrap, self.faults = kind, torus.shape, torus.wrap, faults
        self.chips_a_slice, self.num_chips = kind.num_chips, kind.num_chips * slices
        self.twist: Ints = np.array(torus.twist, np.int64)
        self.sizes: Ints = np.array(torus.shape, np.int64)
        self.strides: Ints = np.array([1, torus.shape[0], torus.shape[0] * torus.shape[1]], np.int64)
        every = np.arange(self.num_chips)
        self.slice_of: Ints = every // self.chips_a_slice
        self.coords: Ints = (every % self.chips_a_slice)[:, None] // self.strides % self.sizes
        self.forward: Ints = np.stack([self._forward(axis) for axis in range(3)])
        self.backward: Ints = np.full_like(self.forward, -1)
        for axis in range(3):
            there = self.forward[axis] >= 0
            self.backward[axis, self.forward[axis, there]] = every[there]
        self.broken: Flags = np.zeros(3 * self.num_chips, np.bool_)
        for number, chip in faults.chips:
            self._break_chip(self.chip(number, chip))
        for number, one, other in faults.links:
            self.broken[self.link_between(self.chip(number, one), self.chip(number, other))] = True
        self._ways: dict[tuple[int, int], Path] = {}

    def chip(self, slice_index: int, coords: Sequence[int]) -> int:
        """The number of a chip."""
        place = sum(int(at * stride) for at, stride in zip(coords, self.strides, strict=True))
        return slice_index * self.chips_a_slice + place

    def link_between(self, one: int, other: int) -> int:
        """The link of two neighbours. Raises ValueError if they are none."""
        for axis in range(3):
            if self.forward[axis, one] == other:
                return axis * self.num_chips + one
            if self.forward[axis, other] == one:
                return axis * self.num_chips + other
        raise ValueError(f"{self.name(one)} and {self.name(other)} are not neighbours")

    def name(self, chip: int) -> str:
        """A chip as messages name it: (1,0,0), of slice 1 if it is not the first."""
        place = f"({','.join(map(str, self.coords[chip]))})"
        return place if chip < self.chips_a_slice else f"{place} of slice {self.slice_of[chip]}"

    @cached_property
    def intact(self) -> bool:
        return not self.broken.any()

    def no_loads(self) -> Floats:
        return np.zeros((2, 3 * self.num_chips))

    def along(self, chips: Ints, axis: int, steps: Ints, ahead: Floats, back: Floats, loads: Floats) -> None:
        """Load the links from each of ``chips`` so many steps forward: ``ahead`` that way, ``back`` the other."""
        at = chips.copy()
        for step in range(int(steps.max(initial=0))):
            going = np.flatnonzero(steps > step)
            links = axis * self.num_chips + at[going]
            loads[0] += np.bincount(links, ahead[going], loads.shape[1])
            loads[1] += np.bincount(links, back[going], loads.shape[1])
            at[going] = self.forward[axis, at[going]]

    def crosses_break(self, chips: Ints, axis: int, steps: Ints) -> Flags:
        """Which of the ways of ``along`` lead over a broken link."""
        found, at = np.zeros(len(chips), np.bool_), chips.copy()
        for step in range(int(steps.max(initial=0))):
            going = np.flatnonzero(steps > step)
            found[going] |= self.broken[axis * self.num_chips + at[going]]
            at[going] = self.forward[axis, at[going]]
        return found

    def send(self, sources: Ints, targets: Ints, amounts: Floats, loads: Floats) -> int:
        """Load the links with messages of one slice; the most hops that one takes. Raises Unavailable if none is left.

        Dimension-ordered and the short way round; around what is broken by a shortest way.
        """
        steps = self._steps(sources, targets)
        if not self.intact:
            blocked = self._blocked(sources, steps)
            hops = 0
            for source, target, amount in zip(sources[blocked], targets[blocked], amounts[blocked], strict=True):
                way = self.around(int(source), int(target))
                self.load_way(way, float(amount), loads)
                hops = max(hops, len(way))
            free = ~blocked
            sources, steps, amounts = sources[free], steps[free], amounts[free]
        else:
            hops = 0
        for links, way, going in self._walk(sources, steps):
            loads[way] += np.bincount(links, amounts[going], loads.shape[1])
        return max(hops, int(np.abs(steps).sum(axis=1).max(initial=0)))

    def around(self, source: int, target: int) -> Path:
        """A shortest way over links that are not broken. Raises Unavailable if there is none."""
        if (source, target) not in self._ways:
            self._ways[source, target] = self._search(source, target)
        return self._ways[source, target]

    @staticmethod
    def load_way(path: Path, amount: float, loads: Floats) -> None:
        for link, way in path:
            loads[way, link] += amount

    def _forward(self, axis: int) -> Ints:
        after = self.coords.copy()
        after[:, axis] += 1
        over = after[:, axis] == self.sizes[axis]
        after[over, axis] = 0
        after[over] = (after[over] + self.twist[axis]) % self.sizes
        found: Ints = after @ self.strides + self.slice_of * self.chips_a_slice
        return np.where(over & (not self.wrap[axis]), -1, found)

    def _break_chip(self, chip: int) -> None:
        for axis in range(3):
            self.broken[axis * self.num_chips + chip] = True
            if (before := self.backward[axis, chip]) >= 0:
                self.broken[axis * self.num_chips + before] = True

    def _steps(self, sources: Ints, targets: Ints) -> Ints:
        """Steps along each axis, signed, that lead from source to target in the fewest hops: (messages, 3)."""
        straight = self.coords[targets] - self.coords[sources]
        best, fewest = straight, np.full(len(straight), 1 << 30)
        turning = [axis for axis in range(3) if self.twist[axis].any()]
        for turns in itertools.product((0, 1), repeat=len(turning)):
            steps = straight.copy()
            for axis, turn in zip(turning, turns, strict=True):
                if turn:  # round the end of a twisted axis, which shifts the others
                    way = np.where(straight[:, axis] > 0, -1, 1)
                    steps[:, axis] += way * self.sizes[axis]
                    steps -= way[:, None] * self.twist[axis]
            for axis in range(3):
                if self.wrap[axis] and axis not in turning:
                    size = self.sizes[axis]
                    ahead = steps[:, axis] % size
                    steps[:, axis] = np.where(ahead > size // 2, ahead - size, ahead)
            hops = np.abs(steps).sum(axis=1)
            best = np.where((hops < fewest)[:, None], steps, best)
            fewest = np.minimum(hops, fewest)
        return best

    def _walk(self, sources: Ints, steps: Ints) -> Any:
        """The links of every message, step by step: (links, way, the messages that take them)."""
        at = sources.copy()
        for axis in range(3):
            for way, table in ((0, self.forward[axis]), (1, self.backward[axis])):
                left = steps[:, axis] * (1 - 2 * way)
                for step in range(int(left.max(initial=0))):
                    going = np.flatnonzero(left > step)
                    before, at[going] = at[going], table[at[going]]
                    yield axis * self.num_chips + (before if way == 0 else at[going]), way, going

    def _blocked(self, sources: Ints, steps: Ints) -> Flags:
        found = np.zeros(len(sources), np.bool_)
        for links, _, going in self._walk(sources, steps):
            found[going] |= self.broken[links]
        return found

    def _search(self, source: int, target: int) -> Path:
        came: dict[int, tuple[int, int, int]] = {source: (-1, -1, -1)}
        edge = deque([source])
        while edge and target not in came:
            chip = edge.popleft()
            for axis in range(3):
                for way, table in ((0, self.forward[axis]), (1, self.backward[axis])):
                    other = int(table[chip])
                    link = axis * self.num_chips + (chip if way == 0 else other)
                    if other >= 0 and other not in came and not self.broken[link]:
                        came[other] = (chip, link, way)
                        edge.append(other)
        if target not in came:
            raise Unavailable(
                f"no way is left from chip {self.name(source)} to chip {self.name(target)}: {self.faults.text()}"
            )
        path: Path = []
        while target != source:
            target, link, way = came[target]
            path.append((link, way))
        return path[::-1]
