"""Which chips are linked? Neighbours, wrap-around and twisted links of a slice.

A link joins a chip to the next one along an axis, both ways. Where an axis wraps, its last chip is linked to its first;
in a twisted torus that link of a short axis lands half a long axis further along every long axis
(Camara et al., "Twisted Torus Topologies for Enhanced Interconnection Networks"; docs.cloud.google.com/tpu/docs/v4).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from backend.hardware.accelerator_types import AcceleratorType

Coords = tuple[int, int, int]


@dataclass(frozen=True)
class Link:
    """The link from ``chip`` to the next chip along ``axis``; ``wraps`` if it goes round the end."""

    chip: Coords
    neighbour: Coords
    axis: int
    wraps: bool

    @property
    def ends(self) -> frozenset[Coords]:
        return frozenset((self.chip, self.neighbour))


class Torus:
    """The chips of one slice and the links between them. Axes that a 2D slice lacks have size 1."""

    def __init__(self, kind: AcceleratorType) -> None:
        self.shape: Coords = shape_3d(kind)
        self.wrap = tuple(wraps and size > 1 for wraps, size in zip((*kind.wrap, False)[:3], self.shape, strict=True))
        self.twist = twists(kind)

    def chips(self) -> Iterator[Coords]:
        """Every chip, x fastest."""
        x_size, y_size, z_size = self.shape
        for z, y, x in itertools.product(range(z_size), range(y_size), range(x_size)):
            yield x, y, z

    def next_chip(self, chip: Coords, axis: int) -> Link | None:
        """The link forward along ``axis``; None at the end of an axis that does not wrap."""
        place = list(chip)
        place[axis] += 1
        around = place[axis] == self.shape[axis]
        if around:
            if not self.wrap[axis]:
                return None
            place[axis] = 0
            place = [(at + by) % size for at, by, size in zip(place, self.twist[axis], self.shape, strict=True)]
        x, y, z = place
        return Link(chip, (x, y, z), axis, around)

    def links(self) -> Iterator[Link]:
        """Every link once."""
        for chip in self.chips():
            for axis in range(3):
                if link := self.next_chip(chip, axis):
                    yield link

    def neighbours(self, chip: Coords) -> list[Coords]:
        """The chips that are one link away."""
        return [b if a == chip else a for a, b in ((link.chip, link.neighbour) for link in self.links_of(chip))]

    def links_of(self, chip: Coords) -> list[Link]:
        """The links that end at a chip, at most two an axis."""
        found = [link for axis in range(3) if (link := self.next_chip(chip, axis))]
        for axis in range(3):
            back = list(chip)
            back[axis] -= 1
            if back[axis] < 0:
                if not self.wrap[axis]:
                    continue
                back[axis] = self.shape[axis] - 1
                back = [(at - by) % size for at, by, size in zip(back, self.twist[axis], self.shape, strict=True)]
            x, y, z = back
            if link := self.next_chip((x, y, z), axis):
                found.append(link)
        return found


def shape_3d(kind: AcceleratorType) -> Coords:
    """Chips along x, y and z."""
    x, y, z = (*kind.shape, 1)[:3]
    return x, y, z


def twists(kind: AcceleratorType) -> tuple[Coords, Coords, Coords]:
    """For each axis, how far along x, y, z its wrap links land: half a long axis along the long ones, if twisted."""
    shape = shape_3d(kind)
    smallest = min(shape)
    rows = []
    for axis in range(3):
        turned = kind.twisted and shape[axis] == smallest
        x, y, z = (size // 2 if turned and size > smallest else 0 for size in shape)
        rows.append((x, y, z))
    return rows[0], rows[1], rows[2]


def link_count(kind: AcceleratorType) -> int:
    """Links of a slice in closed form: along an axis of n chips, n for each line of it that wraps, else n - 1."""
    return sum(
        kind.num_chips // size * (size if wraps else size - 1)
        for size, wraps in zip(kind.shape, kind.wrap, strict=True)
    )
