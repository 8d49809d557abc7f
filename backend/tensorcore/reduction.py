"""How are elements summed, compared, folded? ``reduce``, alone or over all cores as well.

Chunks depend on shapes only, and each is summed pairwise or by the matrix unit's float32 sums; so the order of
summation, and with it every bit, is the same however many threads work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.compiler.simplify import reducer
from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.vector import compute_dtype

_CHUNK = 1 << 16

FOLDS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BOOL_FOLDS = {
    "add": np.logical_or,
    "or": np.logical_or,
    "maximum": np.logical_or,
    "multiply": np.logical_and,
    "and": np.logical_and,
    "minimum": np.logical_and,
    "xor": np.logical_xor,
}


def fold_of(region: Computation, dtype: np.dtype[Any]) -> Any | None:
    """The ufunc of a reducer such as ``a + b``; None for a reducer that is more than that."""
    name = reducer(region)
    return (_BOOL_FOLDS if dtype.kind == "b" else FOLDS).get(name)


def build(site: Site) -> Step:
    """The step of a ``reduce``."""
    region = site.instruction.regions[0]
    fold = fold_of(region, site.operand_type(0).dtype) if len(site.instruction.results) == 1 else None
    return _general(site, region) if fold is None else _folded(site, fold)


def _axes(site: Site) -> list[int]:
    lead = int(not site.uniform(0)) if site.attributes.get("over_cores") else site.lead
    axes = [d + lead for d in site.attributes["dimensions"]]
    return [0, *axes] if site.attributes.get("over_cores") else axes


def _folded(site: Site, fold: Any) -> Step:
    axes = tuple(_axes(site))
    lead = site.lead
    target, operand = site.instruction.results[0], site.instruction.operands[0]
    read = site.reader(0) if lead else (lambda env: env[operand])
    initial = site.reader(1)
    dtype = site.result_type().dtype
    inside = compute_dtype(dtype)
    source = np.broadcast_to(site.operand(0), site.full_shape(operand)) if not lead else _full(site)
    plan = _plan(source.shape, axes)
    expand = (slice(None),) * lead + (np.newaxis,) * len(site.result_type().shape)

    def step(env: Environment) -> None:
        array = read(env)
        if array.dtype != inside:
            array = array.astype(inside)
        out = env[target]
        total = out if dtype == inside else np.empty(out.shape, inside)
        start = initial(env).astype(inside, copy=False)
        start = start[expand] if lead else start
        if array.size or not total.size:
            _reduce(site, fold, array, axes, plan, total)
            fold(total, start, out=total)
        else:
            np.copyto(total, start)
        if total is not out:
            np.copyto(out, total, casting="unsafe")

    return step


def _full(site: Site) -> Array:
    array = site.operand(0)
    return np.broadcast_to(array, (site.num_cores, *array.shape)) if site.uniform(0) else array


def _plan(shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """How to go about it: "rows" (trailing axes reduced), "columns" (leading axes reduced) or "any"."""
    ndim = len(shape)
    reduced = sorted(axes)
    if not reduced or 0 in shape:
        return "any"
    if reduced == list(range(ndim - len(reduced), ndim)):
        return "rows"
    return "columns" if reduced == list(range(len(reduced))) else "any"


def _reduce(site: Site, fold: Any, array: Array, axes: tuple[int, ...], plan: str, out: Array) -> None:
    """Fold ``array`` along ``axes`` into ``out``; there is something to fold along each."""
    if array.size <= _CHUNK or plan == "any":
        _any(site, fold, array, axes, out)
    elif plan == "rows":
        _rows(site, fold, array, len(axes), out)
    else:
        _columns(site, fold, array, len(axes), out)


def _any(site: Site, fold: Any, array: Array, axes: tuple[int, ...], out: Array) -> None:
    """By numpy's own reduction, cut along the first kept axis."""
    kept = [d for d in range(array.ndim) if d not in axes]
    if array.size <= _CHUNK or not kept:
        fold.reduce(array, axis=axes, dtype=array.dtype, out=out)
        return
    axis = kept[0]
    rows = max(1, array.shape[axis] * _CHUNK // array.size)

    def work(chunk: int, _: int) -> None:
        part = slice(chunk * rows, (chunk + 1) * rows)
        fold.reduce(array[(slice(None),) * axis + (part,)], axis=axes, dtype=array.dtype, out=out[part])

    site.workers.run(-(-array.shape[axis] // rows), work)


def _rows(site: Site, fold: Any, array: Array, count: int, out: Array) -> None:
    """Trailing axes: each row by itself; one long row in chunks."""
    kept = array.shape[: array.ndim - count]
    number = int(np.prod(kept, dtype=np.int64))
    rows = array.reshape(number, -1)
    flat = out.reshape(number)
    if number == 1:
        long = rows[0]
        partial = np.empty(-(-long.size // _CHUNK), array.dtype)

        def piece(chunk: int, _: int) -> None:
            partial[chunk] = fold.reduce(long[chunk * _CHUNK : (chunk + 1) * _CHUNK], dtype=array.dtype)

        site.workers.run(partial.size, piece)
        fold.reduce(partial, dtype=array.dtype, out=flat.reshape(()))
        return
    height = max(1, _CHUNK // rows.shape[1])

    def work(chunk: int, _: int) -> None:
        part = slice(chunk * height, (chunk + 1) * height)
        fold.reduce(rows[part], axis=1, dtype=array.dtype, out=flat[part])

    site.workers.run(-(-number // height), work)


def _columns(site: Site, fold: Any, array: Array, count: int, out: Array) -> None:
    """Leading axes: blocks of rows to partial results, then those. Float sums by a product with ones."""
    width = int(np.prod(array.shape[count:], dtype=np.int64))
    table = array.reshape(-1, width)
    height = max(1, _CHUNK // max(1, width))
    chunks = -(-table.shape[0] // height)
    partial = np.empty((chunks, width), array.dtype)
    by_product = fold is np.add and array.dtype.kind == "f" and width < _CHUNK
    ones = np.ones((1, height), array.dtype)

    def work(chunk: int, _: int) -> None:
        part = table[chunk * height : (chunk + 1) * height]
        if by_product:
            np.matmul(ones[:, : part.shape[0]], part, out=partial[chunk : chunk + 1])
        else:
            fold.reduce(part, axis=0, dtype=array.dtype, out=partial[chunk])

    site.workers.run(chunks, work)
    fold.reduce(partial, axis=0, dtype=array.dtype, out=out.reshape(width))


def _general(site: Site, region: Computation) -> Step:
    """Any reducer: halves are combined elementwise until one row is left."""
    count = len(site.instruction.results)
    axes = [d + site.lead for d in site.attributes["dimensions"]]
    readers = [site.reader(i) for i in range(2 * count)]
    captured = dict(region.captures)

    def step(env: Environment) -> None:
        outside = {inner: env[outer] for inner, outer in captured.items()}
        rows = []
        for read in readers[:count]:
            array = read(env)
            kept = [d for d in range(array.ndim) if d not in axes]
            shape = tuple(array.shape[d] for d in kept)
            rows.append(array.transpose([*axes, *kept]).reshape(-1, *shape))
        starts = [read(env) for read in readers[count:]]
        out_shape = env[site.instruction.results[0]].shape
        starts = [s.reshape(s.shape + (1,) * (len(out_shape) - s.ndim)) for s in starts]
        while rows[0].shape[0] > 1:
            half = rows[0].shape[0] // 2
            joined = evaluate(
                region, [r[0 : 2 * half : 2] for r in rows] + [r[1 : 2 * half : 2] for r in rows], outside
            )
            rows = [np.concatenate([j, r[2 * half :]]) for j, r in zip(joined, rows, strict=True)]
        finals = evaluate(region, [*starts, *(r[0] for r in rows)], outside) if rows[0].shape[0] else starts
        for value, final in zip(site.instruction.results, finals, strict=True):
            np.copyto(env[value], final)

    return step


KERNELS = {"reduce": Kernel(build)}
