"""How does data move between cores? The collectives, on arrays with a leading core axis.

A collective over one group of all cores gives a uniform value: it is made once. Sums run in the order of the cores.
The groups of a program are done together, as one operation of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from backend.compiler.uniform import spans_all_cores
from backend.errors import Unimplemented
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import compute_dtype


class Grid:
    """Cores as an array (rows, members, columns), of which each line of members is a replica group.

    Groups along one axis of a mesh are such an array as they are; others are once their cores are put in order.
    """

    def __init__(self, groups: Array, num_cores: int) -> None:
        """``groups``: int[groups, members], each core at most once."""
        self.members = groups.shape[1]
        self._order: Array | None = None
        stride = int(groups[0, 1] - groups[0, 0]) if self.members > 1 else 1
        if stride > 0 and groups.size == num_cores and num_cores % (self.members * stride) == 0:
            self._shape = (-1, self.members, stride)
            lines = np.moveaxis(np.arange(num_cores).reshape(self._shape), 1, 2)
            if np.array_equal(lines.reshape(groups.shape), groups):
                return
        self._shape = (-1, self.members, 1)
        self._order = groups.reshape(-1)

    def take(self, source: Array) -> Array:
        """A value with a core axis as (rows, members, columns, ...)."""
        ordered = source if self._order is None else source[self._order]
        return ordered.reshape(*self._shape, *source.shape[1:])

    def put(self, target: Array, fill: Callable[[Array], None]) -> None:
        """Have the array of a value with a core axis filled as (rows, members, columns, ...)."""
        if self._order is None:
            fill(target.reshape(*self._shape, *target.shape[1:]))
            return
        ordered = np.empty((len(self._order), *target.shape[1:]), target.dtype)
        fill(ordered.reshape(*self._shape, *target.shape[1:]))
        target[self._order] = ordered


_AXES = 3
"""Axes of a grid, before those of the values."""


def _grids(site: Site) -> list[Grid]:
    """The replica groups; those of one size are one grid."""
    rows = site.attributes["groups"] or [range(site.num_cores)]
    sizes = dict.fromkeys(len(row) for row in rows)
    return [Grid(np.array([row for row in rows if len(row) == size]), site.num_cores) for size in sizes]


def _per_core(site: Site, position: int) -> Any:
    """Reads an operand with a core axis, broadcast if uniform."""
    value = site.instruction.operands[position]
    if not site.uniform(position):
        return lambda env: env[value]
    if site.num_cores == 1:
        return lambda env: env[value][np.newaxis]
    shape = (site.num_cores, *site.operand_type(position).shape)
    return lambda env: np.broadcast_to(env[value], shape)


def _out(site: Site, position: int = 0) -> Any:
    """Gives a result's array with a core axis; with one core a result has none of its own."""
    value = site.instruction.results[position]
    return (lambda env: env[value]) if site.lead else (lambda env: env[value][np.newaxis])


def _fold(site: Site) -> Any:
    fold = fold_of(site.instruction.regions[0], site.operand_type(0).dtype)
    if fold is None:
        raise Unimplemented(f"{site.instruction.op} with this reducer is not supported yet ({site.instruction.source})")
    return fold


def _whole(site: Site) -> bool:
    return spans_all_cores(site.attributes["groups"], site.num_cores)


def build_all_reduce(site: Site) -> Step:
    """``all_reduce`` of any number of operands."""
    fold = _fold(site)
    readers = [_per_core(site, i) for i in range(len(site.instruction.operands))]
    whole, grids = _whole(site), _grids(site)
    results = site.instruction.results

    def step(env: Environment) -> None:
        for value, read in zip(results, readers, strict=True):
            source = read(env)
            wide = source.astype(compute_dtype(source.dtype), copy=False)
            if whole:
                env[value][...] = fold.reduce(wide, axis=0, dtype=wide.dtype)
                continue
            for grid in grids:
                total = fold.reduce(grid.take(wide), axis=1, dtype=wide.dtype, keepdims=True)
                grid.put(env[value], partial(_write, total))

    return step


def build_all_gather(site: Site) -> Step:
    """``all_gather``: parts joined along a dimension, in the order of the group."""
    axis: int = site.attributes["all_gather_dim"]
    read, whole, grids = _per_core(site, 0), _whole(site), _grids(site)
    value = site.instruction.results[0]

    def step(env: Environment) -> None:
        for grid in grids:
            parts = np.moveaxis(grid.take(read(env)), 1, axis + _AXES - 1)  # (rows, columns, ..., members, axis, ...)
            if whole:
                _write(parts[0, 0], env[value].reshape(parts.shape[2:]))
            else:
                grid.put(env[value], partial(_write, parts[:, np.newaxis], split=axis))

    return step


def build_reduce_scatter(site: Site) -> Step:
    """``reduce_scatter``: the sum of a group, cut into one part a core."""
    axis: int = site.attributes["scatter_dimension"]
    fold, read, grids = _fold(site), _per_core(site, 0), _grids(site)
    result = _out(site)

    def step(env: Environment) -> None:
        source = read(env)
        wide = source.astype(compute_dtype(source.dtype), copy=False)
        for grid in grids:
            total = fold.reduce(grid.take(wide), axis=1, dtype=wide.dtype, keepdims=True)
            parts = np.moveaxis(_split(total, axis, grid.members), axis + _AXES, 1)[:, :, 0]
            grid.put(result(env), partial(_write, parts))

    return step


def build_all_to_all(site: Site) -> Step:
    """``all_to_all``: each core cuts its value and sends part i to the i-th core of its group."""
    cut: int = site.attributes["split_dimension"]
    join: int = site.attributes["concat_dimension"]
    readers = [_per_core(site, i) for i in range(len(site.instruction.operands))]
    results = [_out(site, i) for i in range(len(site.instruction.results))]
    grids = _grids(site)

    def step(env: Environment) -> None:
        for (result, read), grid in product(zip(results, readers, strict=True), grids):
            parts = _split(grid.take(read(env)), cut, grid.members)  # (rows, from, columns, ..., to, cut, ...)
            parts = np.moveaxis(parts, cut + _AXES, 0)  # (to, rows, from, columns, ...)
            parts = np.moveaxis(parts, (0, 2), (1, join + _AXES))  # (rows, to, columns, ..., from, join, ...)
            grid.put(result(env), partial(_write, parts, split=join))

    return step


def _write(source: Array, target: Array, split: int | None = None) -> None:
    """Copy to a grid's array, of which one dimension may be cut as that of the source is."""
    if split is not None:
        target = _split(target, split, source.shape[split + _AXES])
    np.copyto(target, source, casting="unsafe")


def _split(array: Array, dimension: int, count: int) -> Array:
    """A grid of values with one dimension cut into (count, rest)."""
    axis = dimension + _AXES
    return array.reshape(*array.shape[:axis], count, array.shape[axis] // count, *array.shape[axis + 1 :])


def build_collective_permute(site: Site) -> Step:
    """``collective_permute``: cores that nobody sends to get zeros."""
    pairs = site.attributes["pairs"]
    sources = np.array([source for source, _ in pairs], dtype=np.int64)
    targets = np.array([target for _, target in pairs], dtype=np.int64)
    read, result = _per_core(site, 0), _out(site)
    complete = len(pairs) == site.num_cores

    def step(env: Environment) -> None:
        out = result(env)
        if not complete:
            out.fill(0)
        out[targets] = read(env)[sources]

    return step


def build_collective_broadcast(site: Site) -> Step:
    """``collective_broadcast``: the first core of each group sends to the others; cores in no group get zeros."""
    groups = [np.array(row) for row in site.attributes["groups"]]
    read, result = _per_core(site, 0), _out(site)

    def step(env: Environment) -> None:
        source, out = read(env), result(env)
        out.fill(0)
        for group in groups:
            out[group] = source[group[0]]

    return step


KERNELS = {
    "all_reduce": Kernel(build_all_reduce),
    "all_gather": Kernel(build_all_gather),
    "reduce_scatter": Kernel(build_reduce_scatter),
    "all_to_all": Kernel(build_all_to_all),
    "collective_permute": Kernel(build_collective_permute),
    "collective_broadcast": Kernel(build_collective_broadcast),
}
