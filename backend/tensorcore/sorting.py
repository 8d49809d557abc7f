"""How are elements put in order? ``sort`` with the comparators that JAX writes, and ``top_k``."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.errors import Unimplemented
from backend.tensorcore.lowering import Environment, Kernel, Site, Step
from backend.tensorcore.vector import compute_dtype


def _sort_keys(region: Computation, source: str) -> tuple[list[int], bool]:
    """Operand numbers that the comparator compares, most significant first, and whether it puts the largest first.

    Comparators compare parameters 2i and 2i + 1, perhaps after normalising each (NaN, -0), and join the comparisons of
    several keys from the least significant one on. Raises Unimplemented for any other.
    """
    origin: dict[int, int] = {value: position for position, value in enumerate(region.parameters)}
    keys: list[int] = []
    descending: set[bool] = set()
    for instruction in region.instructions:
        origins = {origin[value] for value in instruction.operands if value in origin}
        if len(origins) == 1:
            origin[instruction.results[0]] = next(iter(origins))
        ordering = instruction.op == "compare" and instruction.attributes["direction"] not in {"EQ", "NE"}
        if not ordering or len(origins) < 2:
            continue
        left, right = (origin[value] for value in instruction.operands)
        if left // 2 != right // 2:
            raise Unimplemented(f"a sort with this comparator is not supported yet ({source})")
        descending.add((instruction.attributes["direction"] in {"GT", "GE"}) != (left > right))
        keys.append(left // 2)
    if not keys or len(descending) > 1:
        raise Unimplemented(f"a sort with this comparator is not supported yet ({source})")
    return keys[::-1], descending.pop()


def build_sort(site: Site) -> Step:
    """``sort``: stable, any number of operands."""
    keys, descending = _sort_keys(site.instruction.regions[0], site.instruction.source)
    axis = site.attributes["dimension"] + site.lead
    readers = [site.reader(i) for i in range(len(site.instruction.operands))]
    results = site.instruction.results

    def step(env: Environment) -> None:
        arrays = [read(env) for read in readers]
        compared: list[Any] = [arrays[k].astype(compute_dtype(arrays[k].dtype), copy=False) for k in keys]
        if descending:
            compared = [np.flip(key, axis) for key in compared]
        order = (
            np.argsort(compared[0], axis, kind="stable") if len(keys) == 1 else np.lexsort(compared[::-1], axis=axis)
        )
        if descending:
            order = np.flip(arrays[0].shape[axis] - 1 - order, axis)
        for value, array in zip(results, arrays, strict=True):
            env[value][...] = np.take_along_axis(array, order, axis)

    return step


def build_top_k(site: Site) -> Step:
    """``top_k`` along the last dimension: largest first, ties in the order of their positions."""
    k: int = site.attributes["k"]
    read = site.reader(0)
    values, indices = site.instruction.results

    def step(env: Environment) -> None:
        array = read(env)
        wide: Any = array.astype(compute_dtype(array.dtype), copy=False)
        size = array.shape[-1]
        order = size - 1 - np.argsort(np.flip(wide, -1), -1, kind="stable")
        order = np.flip(order, -1)[..., :k]
        env[values][...] = np.take_along_axis(array, order, -1)
        env[indices][...] = order

    return step


KERNELS = {"sort": Kernel(build_sort), "top_k": Kernel(build_top_k)}
