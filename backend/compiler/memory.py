"""How many bytes of HBM does a program need? Every buffer in TPU tiles, and the peak of the temporaries.

The tile rule and the published cases that it reproduces: jax/_src/tpu_info.py, flowpm issue 27, tensorflow issue 30803.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from backend.compiler.program import Computation, Instruction, MemoryStats, TensorType
from backend.compiler.rounding import ROUND
from backend.compiler.simplify import uses

_LANES = 128
_SUBLANES = 8
_VECTOR_TILE = 256
_VIEWS = frozenset({"reshape", "broadcast_in_dim", "constant", "iota"})


def padded_bytes(kind: TensorType, minor_to_major: Sequence[int] | None = None) -> int:
    """Bytes of one core's buffer in HBM.

    The minor-most dimension is rounded up to 128 lanes, the next to the tile's sublanes. Without a layout the
    compiler's choice is taken: the two minor dimensions that waste least.
    """
    itemsize = kind.dtype.itemsize
    long = [size for size in kind.shape if size != 1]
    if kind.size == 0:
        return 0
    if len(kind.shape) < 2 or (minor_to_major is None and len(long) < 2):
        return _round_up(kind.size, _VECTOR_TILE if kind.size > _LANES else _LANES) * itemsize
    if minor_to_major is not None:
        minor, second = minor_to_major[0], minor_to_major[1]
        return _tiled(kind.size, kind.shape[minor], kind.shape[second], itemsize)
    return min(_tiled(kind.size, minor, second, itemsize) for minor, second in permutations(long, 2))


def _tiled(size: int, minor: int, second: int, itemsize: int) -> int:
    packing = max(1, 4 // itemsize)
    sublanes = _SUBLANES * packing
    while sublanes > 2 * packing and sublanes // 2 >= second:
        sublanes //= 2  # small second-minor dimensions get smaller tiles: T(4,128), T(2,128)
    rest = size // (minor * second)
    return rest * _round_up(minor, _LANES) * _round_up(second, sublanes) * itemsize


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def plan_memory(schedule: Computation, donated: list[int]) -> MemoryStats:
    """HBM of one core for a scheduled computation: arguments, results, and the most that is live at once in between."""
    arguments = [schedule.types[value] for value in schedule.parameters]
    results = [schedule.types[value] for value in schedule.returns]
    alias = 0
    free = [padded_bytes(arguments[number]) for number in donated]
    for kind in results:
        if padded_bytes(kind) in free:
            free.remove(padded_bytes(kind))
            alias += padded_bytes(kind)
    return MemoryStats(
        argument_bytes=sum(padded_bytes(kind) for kind in arguments),
        output_bytes=sum(padded_bytes(kind) for kind in results),
        alias_bytes=alias,
        temp_bytes=_peak(schedule),
        code_bytes=64 * len(schedule.instructions),
    )


def largest_temporaries(schedule: Computation, count: int) -> list[tuple[TensorType, int, str]]:
    """The ``count`` largest values that are neither parameter nor result: type, padded bytes, source line."""
    rows = [
        (schedule.types[value], padded_bytes(schedule.types[value]), instruction.source)
        for instruction in schedule.instructions
        if instruction.op not in _VIEWS
        for value in instruction.results
        if value not in schedule.returns
    ]
    return sorted(rows, key=lambda row: -row[1])[:count]


def _rounded_on_the_way(instruction: Instruction) -> set[int]:
    """Results that are only the rounded form of a value that is in memory: the matrix unit rounds as it reads."""
    if instruction.op != "fusion":
        return set()
    region = instruction.regions[0]
    stored = {*region.parameters, *region.returns}
    rounded = {i.results[0] for i in region.instructions if i.op == ROUND and i.operands[0] in stored}
    return {outer for outer, inner in zip(instruction.results, region.returns, strict=True) if inner in rounded}


def _peak(computation: Computation) -> int:
    """Most bytes of temporaries live at once. Views take none; results have memory of their own."""
    last: dict[int, int] = {}
    for index, instruction in enumerate(computation.instructions):
        for value in (*uses(instruction), *instruction.results):
            last[value] = index
    outside = {*computation.parameters, *computation.returns}
    dying: dict[int, list[int]] = {}
    for value, index in last.items():
        dying.setdefault(index, []).append(value)
    size: dict[int, int] = {}
    live = peak = 0
    for index, instruction in enumerate(computation.instructions):
        free = _rounded_on_the_way(instruction)
        for value in instruction.results:
            if instruction.op not in _VIEWS and value not in outside and value not in free:
                size[value] = padded_bytes(computation.types[value])
                live += size[value]
        inside = max((_peak(region) for region in instruction.regions), default=0) if instruction.op != "fusion" else 0
        peak = max(peak, live + inside)
        for value in dying.get(index, ()):
            live -= size.pop(value, 0)
    return peak
