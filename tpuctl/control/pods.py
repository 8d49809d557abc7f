"""What is a pod, and which of its chips may a slice have? One of the fleet, with its parts as masks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from backend.fleet import Layout, Placement, Snapshot, layout_of
from backend.fleet.layout import Masks
from backend.hardware.torus import Coords
from tpuctl.api.errors import InvalidArgument
from tpuctl.api.fleet import PodSpec


@dataclass(frozen=True)
class Pod:
    """``spare``, ``reserved`` (by reservation) and ``broken`` have a number a unit, a bit for each chip."""

    name: str
    zone: str
    layout: Layout
    spare: Masks
    reserved: dict[str, Masks] = field(default_factory=dict)
    broken: tuple[Coords, ...] = ()
    maintenance: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, spec: PodSpec, name: str) -> Pod:
        """Raises InvalidArgument for boxes and chips that are not in it."""
        layout = layout_of(spec.generation, None if spec.shape is None else shape_of(spec.shape))
        reserved: dict[str, Masks] = {}
        for part in spec.reserved:
            before = reserved.get(part.reservation, nothing(layout))
            reserved[part.reservation] = before | box_of(layout, part.box)
        spare = nothing(layout)
        for box in spec.spare:
            spare |= box_of(layout, box)
        return cls(
            name,
            spec.zone,
            layout,
            spare,
            reserved,
            tuple(chip_of(layout, chip) for chip in spec.broken),
            tuple((one.start.timestamp(), one.end.timestamp()) for one in spec.maintenance),
        )

    @cached_property
    def is_reserved(self) -> Masks:
        """All reserved parts."""
        found: Masks = np.bitwise_or.reduce([nothing(self.layout), *self.reserved.values()])
        return found

    def empty(self, broken: Iterable[Coords] = ()) -> Snapshot:
        return Snapshot.empty(self.layout, {*self.broken, *broken})

    def drains(self, now: float) -> bool:
        """Whether it is under maintenance."""
        return any(start <= now < end for start, end in self.maintenance)

    def withheld(self, reservation: str | None, repair: bool, now: float) -> Masks:
        """The chips that a slice may not have, though they may be free.

        ``reservation`` is the one that the slice is of, "" for any; it gets those parts and, in a pod that has
        reserved ones, no others.
        A ``repair`` gets spare chips only.
        """
        if self.drains(now):
            return np.full(self.layout.num_units, self.layout.full_mask, np.uint64)
        if repair:
            return self._all_but(self.spare)
        if reservation is None or not self.reserved:
            return self.spare | self.is_reserved
        own = self.is_reserved if reservation == "" else self.reserved.get(reservation, nothing(self.layout))
        return self.spare | self._all_but(own)

    def _all_but(self, chips: Masks) -> Masks:
        others: Masks = ~chips & self.layout.full_mask
        return others


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
    units = np.flatnonzero(placement.chips)
    return {
        "pod": pod,
        "size": list(placement.size),
        "origin": None if placement.origin is None else list(placement.origin),
        "chips": {str(unit): f"{int(placement.chips[unit]):x}" for unit in units},
    }


def restored(layout: Layout, said: dict[str, Any]) -> Placement:
    """The inverse of ``stored``."""
    chips = nothing(layout)
    for unit, mask in said["chips"].items():
        chips[int(unit)] = np.uint64(int(mask, 16))
    origin = said["origin"]
    return Placement(tuple(said["size"]), None if origin is None else tuple(origin), chips)
