"""How does data move between cores? The collectives, on arrays with a leading core axis.

A collective over one group of all cores gives a uniform value: it is made once. Sums run in the order of the cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.compiler.uniform import spans_all_cores
from backend.errors import Unimplemented
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import compute_dtype


def _groups(site: Site) -> Array:
    """Replica groups as an array (groups, group size) of core numbers."""
    rows = site.attributes["groups"]
    return np.array(rows) if rows else np.arange(site.num_cores).reshape(1, -1)


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
    groups, whole = _groups(site), _whole(site)
    results = site.instruction.results

    def step(env: Environment) -> None:
        for value, read in zip(results, readers, strict=True):
            source = read(env)
            wide = source.astype(compute_dtype(source.dtype), copy=False)
            if whole:
                env[value][...] = fold.reduce(wide, axis=0, dtype=wide.dtype)
                continue
            for group in groups:
                env[value][group] = fold.reduce(wide[group], axis=0, dtype=wide.dtype)

    return step


def build_all_gather(site: Site) -> Step:
    """``all_gather``: parts joined along a dimension, in the order of the group."""
    axis: int = site.attributes["all_gather_dim"]
    read, groups, whole = _per_core(site, 0), _groups(site), _whole(site)
    value = site.instruction.results[0]

    def join(parts: Array) -> Array:
        moved = np.moveaxis(parts, 0, axis)
        return moved.reshape(*moved.shape[:axis], -1, *moved.shape[axis + 2 :])

    def step(env: Environment) -> None:
        source = read(env)
        if whole:
            np.copyto(env[value], join(source[groups[0]]))
            return
        for group in groups:
            env[value][group] = join(source[group])

    return step


def build_reduce_scatter(site: Site) -> Step:
    """``reduce_scatter``: the sum of a group, cut into one part a core."""
    axis: int = site.attributes["scatter_dimension"]
    fold, read, groups = _fold(site), _per_core(site, 0), _groups(site)
    result = _out(site)

    def step(env: Environment) -> None:
        source, out = read(env), result(env)
        wide = source.astype(compute_dtype(source.dtype), copy=False)
        for group in groups:
            total = fold.reduce(wide[group], axis=0, dtype=wide.dtype)
            for core, part in zip(group, np.split(total, len(group), axis), strict=True):
                out[core] = part

    return step


def build_all_to_all(site: Site) -> Step:
    """``all_to_all``: each core cuts its value and sends part i to the i-th core of its group."""
    a = site.attributes
    readers = [_per_core(site, i) for i in range(len(site.instruction.operands))]
    results = [_out(site, i) for i in range(len(site.instruction.results))]
    groups = _groups(site)

    def step(env: Environment) -> None:
        for result, read in zip(results, readers, strict=True):
            source, out = read(env), result(env)
            for group in groups:
                parts = [np.split(source[core], a["split_count"], a["split_dimension"]) for core in group]
                for position, core in enumerate(group):
                    out[core] = np.concatenate([part[position] for part in parts], a["concat_dimension"])

    return step


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
    read, groups, result = _per_core(site, 0), _groups(site), _out(site)

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
