"""What is a pod, and which of its chips may a slice have? One of the fleet, with its parts as masks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.fleet import Layout, Placement, Snapshot, layout_of
from backend.fleet.layout import Masks
from backend.hardware.torus import Coords
from tpuctl.api.errors import InvalidArgument
from tpuctl.api.fleet import PodSpec
from tpuctl.control.reserved import Reserved


@dataclass(frozen=True)
class Pod:
    """``spare`` has a number a unit, a bit for each chip; ``reserved`` are the parts that the fleet file names."""

    name: str
    zone: str
    layout: Layout
    spare: Masks
    reserved: tuple[Reserved, ...] = ()
    broken: tuple[Coords, ...] = ()
    maintenance: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, spec: PodSpec, name: str) -> Pod:
        """Raises InvalidArgument for boxes and chips that are not in it, or boxes that overlap."""
        layout = layout_of(spec.generation, None if spec.shape is None else shape_of(spec.shape))
        spare, parts = nothing(layout), nothing(layout)
        for box in [*spec.spare, *(part.box for part in spec.reserved)]:
            chips = box_of(layout, box)
            if (parts & chips).any():
                raise InvalidArgument(f"{box!r} overlaps another spare or reserved box")
            parts |= chips
        for box in spec.spare:
            spare |= box_of(layout, box)
        return cls(
            name,
            spec.zone,
            layout,
            spare,
            tuple(Reserved(part.reservation, box_of(layout, part.box)) for part in spec.reserved),
            tuple(chip_of(layout, chip) for chip in spec.broken),
            tuple((one.start.timestamp(), one.end.timestamp()) for one in spec.maintenance),
        )

    def empty(self, broken: Iterable[Coords] = ()) -> Snapshot:
        return Snapshot.empty(self.layout, {*self.broken, *broken})

    def drains(self, now: float) -> bool:
        """Whether it is under maintenance."""
        return any(start <= now < end for start, end in self.maintenance)


def nothing(layout: Layout) -> Masks:
    return np.zeros(layout.num_units, np.uint64)


def shape_of(text: str) -> tuple[int, ...]:
    """``4x4x8`` as numbers. Raises InvalidArgument."""
    try:
        return tuple(map(int, text.split("x")))
    except ValueError:
        raise InvalidArgument(f"{text!r} is no shape; write it as 16x16x16, in chips") from None


def chip_of(layout: Layout, text: str) -> Coords:
    """``3,0,1`` (or ``3,0``) as the coordinates of a chip. Raises InvalidArgument."""
    rank = len(layout.generation.pod_shape)
    try:
        at = tuple(map(int, text.split(",")))
    except ValueError:
        at = ()
    if len(at) != rank or not all(0 <= a < size for a, size in zip(at, layout.shape, strict=False)):
        raise InvalidArgument(
            f"{text!r} is no chip of a pod of {shape_text(layout, layout.shape)}; write it as {','.join('0' * rank)}"
        )
    x, y, z = (*at, 0)[:3]
    return x, y, z


def box_of(layout: Layout, text: str) -> Masks:
    """``4x4x4@0,0,8`` as the chips of a box. Raises InvalidArgument."""
    size, _, start = text.partition("@")
    sides, origin = shape_of(size), chip_of(layout, start)
    ends = [at + side for at, side in zip(origin, sides, strict=False)]
    fits = all(side > 0 and end <= whole for side, end, whole in zip(sides, ends, layout.shape, strict=False))
    if len(sides) != len(layout.generation.pod_shape) or not fits:
        raise InvalidArgument(f"{text!r} is no box in a pod of {shape_text(layout, layout.shape)}")
    chips = nothing(layout)
    x_side, y_side, z_side = (*sides, 1)[:3]
    for x in range(origin[0], origin[0] + x_side):
        for y in range(origin[1], origin[1] + y_side):
            for z in range(origin[2], origin[2] + z_side):
                unit, bit = layout.unit_of((x, y, z))
                chips[unit] |= np.uint64(1 << bit)
    return chips


def shape_text(layout: Layout, shape: Coords) -> str:
    """``16x16`` in two dimensions, ``4x4x8`` in three."""
    return "x".join(map(str, shape[: len(layout.generation.pod_shape)]))


def stored(pod: str, placement: Placement) -> dict[str, Any]:
    """A part of a pod as JSON."""
    return {
        "pod": pod,
        "size": list(placement.size),
        "origin": None if placement.origin is None else list(placement.origin),
        "chips": hex_masks(placement.chips),
    }


def restored(layout: Layout, said: dict[str, Any]) -> Placement:
    """The inverse of ``stored``."""
    origin = said["origin"]
    return Placement(tuple(said["size"]), None if origin is None else tuple(origin), masks_of(layout, said["chips"]))


def hex_masks(chips: Masks) -> dict[str, str]:
    """The units that have any, as JSON."""
    return {str(unit): f"{int(chips[unit]):x}" for unit in np.flatnonzero(chips)}


def masks_of(layout: Layout, said: dict[str, str]) -> Masks:
    """The inverse of ``hex_masks``."""
    chips = nothing(layout)
    for unit, mask in said.items():
        chips[int(unit)] = np.uint64(int(mask, 16))
    return chips
