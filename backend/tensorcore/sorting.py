"""How are elements put in order? ``sort``, ``top_k`` and ``approx_top_k``."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.vector import compute_dtype


def _sort_keys(region: Computation) -> tuple[list[int], bool] | None:
    """Operand numbers that a comparator of JAX's compares, the first counts most, and whether the largest come first.

    Such comparators compare parameters 2i and 2i + 1, perhaps after normalising each (NaN, -0), and join the
    comparisons of several keys from the least significant one on. None for any other.
    """
    if region.captures:
        return None
    origin: dict[int, int] = {value: position for position, value in enumerate(region.parameters)}
    keys: list[int] = []
    descending: set[bool] = set()
    for instruction in region.instructions:
        if instruction.op not in _IN_COMPARATORS:
            return None
        origins = {origin[value] for value in instruction.operands if value in origin}
        if len(origins) == 1:
            origin[instruction.results[0]] = next(iter(origins))
        ordering = instruction.op == "compare" and instruction.attributes["direction"] not in {"EQ", "NE"}
        if not ordering or len(origins) < 2:
            continue
        left, right = (origin[value] for value in instruction.operands)
        if left // 2 != right // 2:
            return None
        descending.add((instruction.attributes["direction"] in {"GT", "GE"}) != (left > right))
        keys.append(left // 2)
    return (keys[::-1], descending.pop()) if len(descending) == 1 else None


_IN_COMPARATORS = frozenset({"compare", "constant", "select", "or", "and", "real", "imag", "convert"})


def build_sort(site: Site) -> Step:
    """``sort``: stable, any number of operands, any comparator."""
    region = site.instruction.regions[0]
    keys = _sort_keys(region)
    axis = site.attributes["dimension"] + site.lead
    readers = [site.reader(i) for i in range(len(site.instruction.operands))]
    results = site.instruction.results

    def step(env: Environment) -> None:
        arrays = [read(env) for read in readers]
        if keys is None:
            captured = {inner: env[outer] for inner, outer in region.captures}
            order = np.moveaxis(_network(region, [np.moveaxis(a, axis, -1) for a in arrays], captured), -1, axis)
        else:
            order = _by_keys([arrays[k] for k in keys[0]], keys[1], axis)
        for value, array in zip(results, arrays, strict=True):
            env[value][...] = np.take_along_axis(array, order, axis)

    return step


def _by_keys(keys: list[Array], descending: bool, axis: int) -> Array:
    compared: list[Any] = [key.astype(compute_dtype(key.dtype), copy=False) for key in keys]
    if descending:
        compared = [np.flip(key, axis) for key in compared]
    order = np.argsort(compared[0], axis, kind="stable") if len(keys) == 1 else np.lexsort(compared[::-1], axis=axis)
    return np.flip(keys[0].shape[axis] - 1 - order, axis) if descending else order


def _network(region: Computation, arrays: list[Array], captured: dict[int, Array]) -> Array:
    """The order of the last axis by a comparator that is evaluated on many pairs at once.

    Batcher's odd-even merge sort ("Sorting networks and their applications", 1968): log2(n)**2 rounds of independent
    comparisons; of equal elements the earlier goes first, which makes it stable.
    """
    size = arrays[0].shape[-1]
    order = np.broadcast_to(np.arange(size), arrays[0].shape).copy()
    for left, right in _rounds(size):
        first, second = order[..., left], order[..., right]
        pairs = [np.take_along_axis(array, index, -1) for array in arrays for index in (first, second)]
        swapped = [pair for low, high in zip(pairs[::2], pairs[1::2], strict=True) for pair in (high, low)]
        after = evaluate(region, swapped, captured)[0]
        before = evaluate(region, pairs, captured)[0]
        wrong = np.where(np.equal(before, after), first > second, after)
        order[..., left] = np.where(wrong, second, first)
        order[..., right] = np.where(wrong, first, second)
    return order


def _rounds(size: int) -> list[tuple[Array, Array]]:
    """Rounds of a sorting network for ``size`` elements: the places that are compared, left against right."""
    rounds = []
    places = np.arange(size)
    run = 1
    while run < size:
        step = run
        while step >= 1:
            start = step % run
            left = places[(places >= start) & ((places - start) % (2 * step) < step)]
            left = left[(left + step < size) & (left // (2 * run) == (left + step) // (2 * run))]
            rounds.append((left, left + step))
            step //= 2
        run *= 2
    return rounds


def build_top_k(site: Site) -> Step:
    """``top_k`` along the last dimension: largest first, ties in the order of their positions."""
    k: int = site.attributes["k"]
    read = site.reader(0)
    values, indices = site.instruction.results

    def step(env: Environment) -> None:
        array = read(env)
        order = _best(array, k, largest=True)
        env[values][...] = np.take_along_axis(array, order, -1)
        env[indices][...] = order

    return step


def _best(array: Array, k: int, largest: bool) -> Array:
    """Positions of the ``k`` best along the last axis, the best first."""
    return _by_keys([array], largest, -1)[..., :k]


def build_approximate_top_k(site: Site) -> Step:
    """``ApproxTopK``: exact, which is within every recall target.

    Without aggregation the result is longer than k: the best of each column when the elements are laid out in
    rows of that length.
    """
    a = site.attributes
    axis, largest = a["dimension"] + site.lead, a["largest"]
    readers = [site.reader(0), site.reader(1)]
    results = site.instruction.results
    length = site.result_type().shape[a["dimension"]]

    def step(env: Environment) -> None:
        keys, payload = (np.moveaxis(read(env), axis, -1) for read in readers)
        order = _best(keys, a["k"], largest) if a["aggregate"] else _best_of_columns(keys, length, largest)
        for value, array in zip(results, (keys, payload), strict=True):
            np.moveaxis(env[value], axis, -1)[...] = np.take_along_axis(array, order, -1)

    return step


def _best_of_columns(keys: Array, columns: int, largest: bool) -> Array:
    """Positions of the best among elements j, j + columns, j + 2 columns, ... for each j below ``columns``."""
    size = keys.shape[-1]
    rows = -(-size // columns)
    rank = np.empty(keys.shape, np.int64)
    np.put_along_axis(rank, _by_keys([keys], largest, -1), np.arange(size).reshape((1,) * (keys.ndim - 1) + (-1,)), -1)
    padded = np.full((*keys.shape[:-1], rows * columns), size)
    padded[..., :size] = rank
    row: Array = padded.reshape(*keys.shape[:-1], rows, columns).argmin(-2)
    return row * columns + np.arange(columns)


KERNELS = {
    "sort": Kernel(build_sort),
    "top_k": Kernel(build_top_k),
    "approx_top_k": Kernel(build_approximate_top_k),
}
