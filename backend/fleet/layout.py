"""How is a pod made up, and where in it can a slice lie? Units of 4 chips along each axis, in a grid that may wrap.

A slice is either part of one unit or a box of whole ones; so says every published topology: no axis is longer than 4
chips unless it is a multiple of 4. On v4, v5p and 7x a unit is a cube of 4x4x4 chips, a rack of its own, joined to
others by optical switches (Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer", ISCA 2023); on the 2D
generations it is a tile of 4x4 chips, four hosts.

All that depends on shapes alone is worked out once and kept: each position of a shape, as the units (or, inside a
unit, the chips) that it covers.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from backend.hardware import AcceleratorType, Generation, generation
from backend.hardware.locations import host_tile
from backend.hardware.topologies import COMMON, parse
from backend.hardware.torus import Coords

UNIT = 4
"""Chips along each axis of a unit."""
Bools = NDArray[np.bool_]
Masks = NDArray[np.uint64]


@dataclass(frozen=True)
class Request:
    """A slice to be placed: chips along each axis, as they are asked for. The box that it gets may be rotated.

    ``contiguous`` asks for a box also where optical switches could join any free units.
    """

    shape: Coords
    contiguous: bool = False
    rotates: bool = True

    @classmethod
    def of(cls, kind: AcceleratorType, *, contiguous: bool = False) -> Request:
        x, y, z = (*kind.shape, 1)[:3]
        return cls((x, y, z), contiguous)

    @property
    def num_chips(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Positions:
    """Where a shape can lie: a row a position. ``origins`` are in units, or in chips of a unit for a small shape."""

    sizes: tuple[Coords, ...]
    """The rotated size of each position."""
    origins: tuple[Coords, ...]
    covers: Bools
    """positions x units, for a shape of whole units."""
    masks: Masks
    """positions, each with a bit for every chip of a unit, for a small shape."""

    def __len__(self) -> int:
        return len(self.origins)


@dataclass(frozen=True)
class Layout:
    """A pod of a generation: units along each axis. ``optical`` says that switches can join any of them."""

    generation: Generation
    grid: Coords
    wrap: tuple[bool, bool, bool]
    optical: bool

    @cached_property
    def unit(self) -> Coords:
        """Chips of a unit along each axis."""
        x, y, *rest = (UNIT,) * len(self.generation.pod_shape)
        return x, y, rest[0] if rest else 1

    @cached_property
    def num_units(self) -> int:
        return math.prod(self.grid)

    @cached_property
    def chips_per_unit(self) -> int:
        return math.prod(self.unit)

    @property
    def num_chips(self) -> int:
        return self.num_units * self.chips_per_unit

    @cached_property
    def full_mask(self) -> np.uint64:
        return np.uint64(2**self.chips_per_unit - 1)

    @property
    def shape(self) -> Coords:
        """Chips along each axis."""
        x, y, z = (units * chips for units, chips in zip(self.grid, self.unit, strict=True))
        return x, y, z

    def unit_of(self, chip: Coords) -> tuple[int, int]:
        """The unit that a chip is in, and the number of its bit."""
        unit, within = zip(*(divmod(at, size) for at, size in zip(chip, self.unit, strict=True)), strict=True)
        return _index(unit, self.grid), _index(within, self.unit)

    def chip(self, unit: int, bit: int) -> Coords:
        """The inverse of unit_of."""
        base, within = _place(unit, self.grid), _place(bit, self.unit)
        x, y, z = (at * size + by for at, size, by in zip(base, self.unit, within, strict=True))
        return x, y, z

    def is_small(self, shape: Coords) -> bool:
        """Whether a shape is part of one unit."""
        return max(shape) <= UNIT and math.prod(shape) < self.chips_per_unit

    def units_of(self, shape: Coords) -> int:
        """How many units a slice has that is not small."""
        return math.prod(-(-chips // unit) for chips, unit in zip(shape, self.unit, strict=True))

    def positions(self, shape: Coords, rotates: bool = True) -> Positions:
        """Every position of a shape of chips."""
        return _positions(self, shape, rotates)

    @property
    def parts(self) -> tuple[Coords, ...]:
        """The shapes of small slices."""
        flat = self.unit[2] == 1
        return ((1, 1, 1), (2, 2, 1), (2, 4, 1)) if flat else ((1, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))

    @cached_property
    def kept(self) -> tuple[Coords, ...]:
        """The shapes whose free positions are worth keeping: the common ones of whole units that fit in the pod."""
        shapes = [_three(parse(topology)[0]) for topology in COMMON[self.generation.name]]
        whole = [shape for shape in shapes if all(a % b == 0 for a, b in zip(shape, self.unit, strict=True))]
        return tuple(shape for shape in whole if len(self.positions(shape)))


def layout_of(generation_name: str, shape: tuple[int, ...] | None = None) -> Layout:
    """A pod of the shape that the generation's pods have, or of another, in chips. Raises ValueError."""
    kind = generation(generation_name)
    chips = kind.pod_shape if shape is None else shape
    if len(chips) != len(kind.pod_shape) or any(size < UNIT or size % UNIT for size in chips):
        text = "x".join(map(str, chips))
        rank = len(kind.pod_shape)
        raise ValueError(f"{text} is no pod of {kind.name}: it has {rank} dimensions, each a multiple of {UNIT}")
    units = _three(tuple(size // UNIT for size in chips))
    has_cubes = len(chips) == 3
    longest = max(kind.pod_shape)
    x, y, z = (has_cubes or size == longest for size in _three(chips))
    return Layout(kind, units, (x, y, z), has_cubes)


def _three(shape: tuple[int, ...]) -> Coords:
    x, y, z = (*shape, 1)[:3]
    return x, y, z


def _index(place: tuple[int, ...], sizes: Coords) -> int:
    """x fastest."""
    return place[0] + sizes[0] * (place[1] + sizes[1] * place[2])


def _place(index: int, sizes: Coords) -> Coords:
    return index % sizes[0], index // sizes[0] % sizes[1], index // (sizes[0] * sizes[1])


@cache
def rotations(shape: Coords, rank: int) -> tuple[Coords, ...]:
    """The distinct orders of a shape's sizes; the third axis of a 2D pod is left alone."""
    turned = {(*order, *shape[rank:]) for order in itertools.permutations(shape[:rank])}
    return tuple(sorted((x, y, z) for x, y, z in turned))


@cache
def _positions(layout: Layout, shape: Coords, rotates: bool) -> Positions:
    rank = len(layout.generation.pod_shape)
    turned = rotations(shape, rank) if rotates else (shape,)
    if layout.is_small(shape):
        return _inside(layout, turned)
    sizes: list[Coords] = []
    origins: list[Coords] = []
    rows: list[Bools] = []
    for size in turned:
        units = tuple(-(-chips // unit) for chips, unit in zip(size, layout.unit, strict=True))
        for origin in itertools.product(*(_starts(layout, axis, units[axis]) for axis in range(3))):
            row = np.zeros(layout.num_units, dtype=np.bool_)
            axes = [[(origin[axis] + step) % layout.grid[axis] for step in range(units[axis])] for axis in range(3)]
            row[[_index(place, layout.grid) for place in itertools.product(*axes)]] = True
            sizes.append(size)
            origins.append((origin[0], origin[1], origin[2]))
            rows.append(row)
    covers = np.array(rows, dtype=np.bool_).reshape(len(rows), layout.num_units)
    return Positions(tuple(sizes), tuple(origins), covers, np.zeros(0, np.uint64))


def _starts(layout: Layout, axis: int, units: int) -> range:
    """Where a box of so many units can start along an axis."""
    size = layout.grid[axis]
    if units > size:
        return range(0)
    return range(1) if units == size else range(size if layout.wrap[axis] else size - units + 1)


def _inside(layout: Layout, turned: tuple[Coords, ...]) -> Positions:
    """The positions of a small shape in a unit: those that hosts and trays allow, aligned to its own size."""
    tile = _tile(layout.generation)
    sizes: list[Coords] = []
    origins: list[Coords] = []
    masks: list[int] = []
    for size in turned:
        if not all(a % b == 0 or b % a == 0 for a, b in zip(size, tile, strict=True)):
            continue
        if math.prod(size) >= math.prod(tile) and any(a % b for a, b in zip(size, tile, strict=True)):
            continue
        if any(a > b for a, b in zip(size, layout.unit, strict=True)):
            continue
        for origin in itertools.product(
            *(range(0, unit - side + 1, side) for unit, side in zip(layout.unit, size, strict=True))
        ):
            axes = [range(at, at + side) for at, side in zip(origin, size, strict=True)]
            sizes.append(size)
            origins.append((origin[0], origin[1], origin[2]))
            masks.append(sum(1 << _index(place, layout.unit) for place in itertools.product(*axes)))
    return Positions(tuple(sizes), tuple(origins), np.zeros((0, 0), np.bool_), np.array(masks, dtype=np.uint64))


@cache
def _tile(kind: Generation) -> Coords:
    """The chips of one host of a larger slice."""
    from backend.hardware.accelerator_types import slice_of

    return host_tile(slice_of(kind.name, "4x4" if len(kind.pod_shape) == 2 else "4x4x4"))
