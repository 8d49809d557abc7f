"""Which topologies may a slice of a generation have? The published ones by name, the others by the generation's rule.

Sources
    [regions]  Cloud TPU's regions page and skypilot's catalogue: v2 and v3
    [v4]       docs.cloud.google.com/tpu/docs/v4: A <= B <= C, all at most 4 or all multiples of 4
    [v5e]      docs.cloud.google.com/tpu/docs/v5e, [v6e] the same shapes
    [xpk]      AI-Hypercomputer/xpk, src/xpk/core/system_characteristics.py@367c8382: v4, v5p, tpu7x
    [v5p]      docs.cloud.google.com/tpu/docs/v5p: which shapes support a twist (k x k x 2k and k x 2k x 2k)
    [recipe]   gclouduniverse/reproducibility, Training/TPU-v5p/Mixtral-8x7B-PyTorch: "4x4x8_untwisted" is asked for,
               as the default is twisted; of v4 nothing is published that says otherwise
"""

from __future__ import annotations

import math
import re
from functools import cache

from backend.hardware.generations import Generation

Shape = tuple[int, ...]

TWISTED = "_twisted"
UNTWISTED = "_untwisted"
TWISTING = frozenset({"v4", "v5p"})
"""Generations whose slices may be twisted tori, [v4], [v5p], and are by default where they may: [recipe]."""

_V5E = "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16"
_CUBES = """
2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 4x4x28 8x8x8 4x12x12 4x8x20 4x4x44 8x8x12 4x4x52 4x8x28
4x12x20 8x8x16 4x4x68 8x12x12 4x4x76 8x8x20 4x12x28 4x8x44 4x4x92 8x12x16 4x20x20 4x8x52 12x12x12 8x8x28 4x4x116
8x12x20 4x4x124 8x16x16 4x12x44 4x8x68 4x20x28 12x12x16 4x4x148 4x8x76 4x12x52 8x16x20 4x4x164 8x12x28 4x4x172 8x8x44
12x12x20 4x8x92 4x4x188 12x16x16 4x28x28 8x20x20 4x12x68 8x8x52 4x4x212 12x12x24 4x20x44 8x16x28 4x12x76 4x8x116
4x4x236 12x16x20 4x4x244 4x8x124 12x12x28 16x16x16 4x20x52 8x12x44 8x8x68 4x12x92 8x20x28 12x16x24 4x8x148 12x20x20
8x8x76 4x28x44 8x12x52 16x16x20 12x12x36 4x8x164 12x16x28 4x20x68 4x8x172 4x12x116 8x16x44 12x20x24 4x28x52 8x8x92
4x12x124 4x8x188 4x20x76 16x16x24 12x24x24
"""

PUBLISHED: dict[str, tuple[str, ...]] = {
    name: tuple(topologies.split())
    for name, topologies in {
        "v2": "2x2 4x4 8x8 8x16 16x16",  # [regions] v2-8, 32, 128, 256, 512
        "v3": "2x2 4x4 4x8 8x8 8x16 16x16 16x32 32x32",  # [regions] v3-8, 32, 64, 128, 256, 512, 1024, 2048
        "v4": "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x12 8x8x16 8x16x16 16x16x16",  # [v4] [xpk]
        "v5e": _V5E,  # [v5e]
        "v5p": _CUBES + "16x20x28",  # [xpk]
        "v6e": _V5E,  # [v6e]
        "7x": _CUBES + "16x16x32 16x20x28 16x24x24",  # [xpk]
    }.items()
}
"""What each generation's slices of a given size are by default, smallest first."""

COMMON: dict[str, tuple[str, ...]] = {
    **PUBLISHED,
    "v5p": tuple("2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16 16x16x24 16x20x28".split()),
    "7x": tuple("2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16 16x24x24".split()),
}
"""Those that Cloud TPU's own pages list, and the full pod: [v5p], docs.cloud.google.com/tpu/docs/tpu7x."""

_SMALL = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
_LONGEST = 256


class InvalidTopology(ValueError):
    """A generation has no slice of this topology; the message names the nearest that it has."""

    def __init__(
        self, generation: Generation, topology: str, why: str | None = None, instead: list[str] | None = None
    ) -> None:
        valid = " or ".join(instead or nearest(generation, topology))
        super().__init__(
            f'"{topology}" is not a topology of {generation.name}: {why or _rule(generation)}; use {valid}'
        )
        self.generation, self.topology = generation, topology


def parse(topology: str) -> tuple[Shape, bool | None]:
    """The shape in chips and whether it is to be twisted, None if that is not said. Raises ValueError.

    "4x4x8_twisted" is (4, 4, 8), True.
    """
    written, twist = topology, None
    for suffix, twists in ((TWISTED, True), (UNTWISTED, False)):
        if topology.endswith(suffix):
            written, twist = topology.removesuffix(suffix), twists
    if not re.fullmatch(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){1,2}", written):
        raise ValueError(f'"{topology}" is not a topology; write chips along each axis, such as 4x4 or 4x4x8')
    return tuple(int(size) for size in written.split("x")), twist


def text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def check(generation: Generation, topology: str) -> tuple[Shape, bool]:
    """Shape and twist of a topology that the generation has. Raises InvalidTopology."""
    try:
        shape, twist = parse(topology)
    except ValueError as error:
        raise InvalidTopology(generation, topology, str(error).split("; ")[-1]) from None
    if shape not in shapes(generation):
        raise InvalidTopology(generation, topology)
    twistable = may_twist(generation, shape)
    if twist and not twistable:
        raise InvalidTopology(
            generation, topology, "only k x k x 2k and k x 2k x 2k of v4 and v5p, k a multiple of 4, may be twisted"
        )
    return shape, twistable if twist is None else twist


def may_twist(generation: Generation, shape: Shape) -> bool:
    """Whether a slice may be a twisted torus: every dimension is the smallest or twice it, and not all are equal."""
    smallest = min(shape)
    return (
        generation.name in TWISTING and smallest % 4 == 0 and set(shape) == {smallest, 2 * smallest} and len(shape) == 3
    )


@cache
def shapes(generation: Generation) -> frozenset[Shape]:
    """Every shape that a slice of the generation can have."""
    published = frozenset(parse(topology)[0] for topology in PUBLISHED[generation.name])
    if len(generation.pod_shape) == 2:
        return published
    most, step = generation.max_chips, 4
    cubes = {
        (x, y, z)
        for x in range(step, _LONGEST + 1, step)
        for y in range(x, min(_LONGEST, most // (x * x)) + 1, step)
        for z in range(y, min(_LONGEST, most // (x * y)) + 1, step)
    }
    return published | frozenset(_SMALL) | cubes


def nearest(generation: Generation, topology: str, count: int = 3) -> list[str]:
    """The valid topologies most like one that is not: the same chips sorted if that is one, else by size and shape."""
    wanted = [max(1, int(size)) for size in re.findall(r"\d{1,5}", topology)] or [1]
    valid = shapes(generation)
    ordered = _ordered(wanted, len(generation.pod_shape))
    for same in (shape for shape in valid if sorted(shape) == ordered):
        return [text(same)]
    chips = math.prod(wanted)

    def distance(shape: Shape) -> tuple[float, float, Shape]:
        by_size = abs(math.log(math.prod(shape) / chips))
        by_shape = sum(abs(math.log(a / b)) for a, b in zip(sorted(shape), ordered, strict=True))
        return by_size + by_shape, by_size, shape

    return [text(shape) for shape in sorted(valid, key=distance)[:count]]


def _ordered(sizes: list[int], rank: int) -> list[int]:
    sizes = sorted(size for size in sizes if size != 1)[-rank:]
    return [1] * (rank - len(sizes)) + sizes


def _rule(generation: Generation) -> str:
    if len(generation.pod_shape) == 3:
        return (
            f"A <= B <= C, all multiples of 4 and at most {generation.max_chips} chips, "
            f"or one of {', '.join(text(shape) for shape in _SMALL)}"
        )
    return f"it has {', '.join(PUBLISHED[generation.name])}"
