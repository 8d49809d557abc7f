"""How do groups that are boxes of chips load the links? Rings and lines along each axis.

A group is a box if its chips are all combinations of some x, some y and some z. Along an axis it is many lines of as
many chips. A line is a ring where its chips stand equally far apart all around an axis that wraps; where a link of a
ring is broken, what is left is a line; a broken link of a line is gone around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backend.ici.routes import Flags, Floats, Ints, Routes


@dataclass(frozen=True)
class Axis:
    """What one byte that is gathered along an axis does.

    ``load`` is on the busiest link and ``hops`` the most one after the other; ``spread`` is the load of a broadcast.
    ``ways`` is how many links feed a chip: 2 in a ring, 1 in a line.
    """

    chips: int
    load: float
    hops: int
    ways: float
    spread: float


@dataclass(frozen=True)
class Lines:
    """All lines of some groups along ``axis``: ``members`` (lines, chips) in the order of their coordinates.

    ``gaps`` are the links from each member to the next, the last of them around the end to the first, and ``cut`` the
    place of the gap that a line does not use: the last one if it is no ring; -1 in a ring.
    """

    routes: Routes
    axis: int
    members: Ints
    gaps: Ints
    cut: Ints
    broken: Flags

    def gather(self) -> Axis:
        count = self.members.shape[1]
        place = self._place()
        ring = (count - 1) / (2 * count)
        ahead = np.where(self._ring(), ring, (place + 1) / count)
        back = np.where(self._ring(), ring, (count - 1 - place) / count)
        loads, detour = self._loads(ahead, back)
        used = np.where(self._used(), self.gaps, 0)
        ring_hops = math.ceil((count - 1) / 2) * int(used.max())
        hops = ring_hops if self._ring().all() else int(used.sum(axis=1).max())
        spread = np.where(self._ring(), 0.5, 1.0)
        spread_loads, _ = self._loads(spread, spread)
        ways = 2.0 if self._ring().all() else 1.0
        return Axis(count, float(loads.max()), hops + detour, ways, float(spread_loads.max()))

    @staticmethod
    def exchange(lines: list[Lines]) -> tuple[float, int]:
        """Load of the busiest link and the hops of an all-to-all in which each chip holds one byte."""
        loads, hops = lines[0].routes.no_loads(), 0
        for line in lines:
            count = line.members.shape[1]
            half = (count - 1) // 2
            ring = half * (half + 1) / (2 * count) + (0.0 if count % 2 else 0.25)
            place = line._place()
            straight = (place + 1) * (count - 1 - place) / count
            both = np.where(line._ring(), ring, straight)
            here, detour = line._loads(both, both)
            loads += here
            used = np.where(line._used(), line.gaps, 0)
            rings = line._ring().all()
            hops += detour + (count // 2 * int(used.max()) if rings else int(used.sum(axis=1).max()))
        return float(loads.max()), hops

    def _ring(self) -> Flags:
        found: Flags = (self.cut < 0)[:, None]
        return found

    def _used(self) -> Flags:
        """The gaps that data goes over: all of a ring, all but the cut of a line."""
        used: Flags = np.arange(self.members.shape[1]) != self.cut[:, None]
        return used

    def _place(self) -> Ints:
        """For each gap, how many others of its line come before it, counted from the cut."""
        count = self.members.shape[1]
        place: Ints = (np.arange(count) - self.cut[:, None] - 1) % count
        return place

    def _loads(self, ahead: Floats, back: Floats) -> tuple[Floats, int]:
        """Loads of the links, and the hops that ways around broken links add."""
        loads, used, detour = self.routes.no_loads(), self._used(), 0
        ahead, back = (np.broadcast_to(each, used.shape) for each in (ahead, back))
        whole = used & ~self.broken
        self.routes.along(
            self.members[whole], self.axis, self.gaps[whole], ahead[whole].copy(), back[whole].copy(), loads
        )
        following = np.roll(self.members, -1, axis=1)
        for line, gap in np.argwhere(used & self.broken):
            path = self.routes.around(int(self.members[line, gap]), int(following[line, gap]))
            self.routes.load_way(path, float(ahead[line, gap]), loads)
            self.routes.load_way([(link, 1 - way) for link, way in path], float(back[line, gap]), loads)
            detour = max(detour, len(path) - int(self.gaps[line, gap]))
        return loads, detour


def boxes(routes: Routes, groups: list[Ints]) -> list[Lines] | None:
    """The lines of groups of chips of one slice along each axis; None if the groups are not equal boxes.

    ``groups`` are blocks (groups, chips), of which those of one chip do not count.
    """
    groups = [block for block in groups if block.shape[1] > 1]
    if len({block.shape[1] for block in groups}) != 1:
        return None
    chips = np.concatenate(groups)
    coords = routes.coords[chips]
    extents = []
    for axis in range(3):
        ordered = np.sort(coords[:, :, axis], axis=1)
        counts = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
        if (counts != counts[0]).any():
            return None
        extents.append(int(counts[0]))
    if math.prod(extents) != chips.shape[1]:
        return None
    found = []
    for axis, count in enumerate(extents):
        if count == 1:
            continue
        others = [place for place in (2, 1, 0) if place != axis]
        rows = np.repeat(np.arange(len(chips)), chips.shape[1])
        flat = coords.reshape(-1, 3)
        order = np.lexsort((flat[:, axis], flat[:, others[1]], flat[:, others[0]], rows))
        members = chips.reshape(-1)[order].reshape(-1, count)
        along = flat[order, axis].reshape(-1, count)
        rest = flat[order][:, others].reshape(-1, count, 2)
        if (rest != rest[:, :1]).any():
            return None
        found.append(_lines(routes, axis, members, along, extents))
    return found


def _lines(routes: Routes, axis: int, members: Ints, along: Ints, extents: list[int]) -> Lines:
    size, count = int(routes.sizes[axis]), members.shape[1]
    gaps = (np.roll(along, -1, axis=1) - along) % size
    gaps[gaps == 0] = size
    closes = _closes(routes, axis, extents)
    ring = closes & (gaps == gaps[:, :1]).all(axis=1) & (count > 2 or size > 2)
    broken = np.zeros(members.shape, np.bool_)
    if not routes.intact:
        used = np.where((np.arange(count) == count - 1) & ~ring[:, None], 0, gaps)
        broken = routes.crosses_break(members.ravel(), axis, used.ravel()).reshape(members.shape)
    opened = ring & (broken.sum(axis=1) == 1)
    cut = np.where(ring, -1, count - 1)
    cut[opened] = np.argmax(broken[opened], axis=1)
    return Lines(routes, axis, members, gaps, cut, broken)


def _closes(routes: Routes, axis: int, extents: list[int]) -> bool:
    """Whether lines along an axis are closed by its wrap links; twisted ones only if groups span what they land on."""
    turned = routes.twist[axis] > 0
    return bool(routes.wrap[axis]) and all(
        extent == size for extent, size, shift in zip(extents, routes.sizes, turned, strict=True) if shift
    )
