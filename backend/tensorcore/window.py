"""How are sliding windows reduced? Pooling, its gradient, and cumulative sums.

A window is walked offset by offset; at each offset one strided slice of the whole input is folded into the output.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import VECTOR_OPS, compute_dtype

_CHUNK = 1 << 16


class _Window:
    """A window's geometry with the core axis, if any, as a dimension of size 1 in the window."""

    def __init__(self, site: Site) -> None:
        a, lead = site.attributes, site.lead
        self.size = [1] * lead + a["window"]
        self.strides = [1] * lead + a["strides"]
        self.base_dilations = [1] * lead + a["base_dilations"]
        self.dilations = [1] * lead + a["window_dilations"]
        self.padding = [(0, 0)] * lead + a["padding"]

    def pads(self) -> bool:
        return any(low or high for low, high in self.padding) or any(d != 1 for d in self.base_dilations)

    def padded_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            max(0, (n - 1) * d + 1 if n else 0) + max(0, low) + max(0, high)
            for n, d, (low, high) in zip(shape, self.base_dilations, self.padding, strict=True)
        )

    def interior(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(max(0, low), max(0, low) + ((n - 1) * d + 1 if n else 0), d)
            for n, d, (low, _) in zip(shape, self.base_dilations, self.padding, strict=True)
        )

    def crop(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(slice(-min(0, low), n + min(0, high)) for n, (low, high) in zip(shape, self.padding, strict=True))

    def pad(self, array: Array, value: Any) -> Array:
        if not self.pads():
            return array
        padded = np.empty(self.padded_shape(array.shape), array.dtype)
        padded[...] = value
        padded[self.interior(array.shape)] = array
        return padded[self.crop(padded.shape)]

    def offsets(self) -> list[tuple[int, ...]]:
        return list(product(*(range(n) for n in self.size)))

    def at(self, offset: tuple[int, ...], out_shape: tuple[int, ...]) -> tuple[slice, ...]:
        """The slice of the padded input that stands at ``offset`` of every window."""
        return tuple(
            slice(o * d, o * d + (n - 1) * s + 1 if n else o * d, s)
            for o, d, n, s in zip(offset, self.dilations, out_shape, self.strides, strict=True)
        )


def _scalar(array: Array, ndim: int) -> Array:
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))


def build_reduce_window(site: Site) -> Step:
    """``reduce_window`` with any reducer."""
    window = _Window(site)
    region = site.instruction.regions[0]
    count = len(site.instruction.results)
    fold = fold_of(region, site.operand_type(0).dtype) if count == 1 else None
    if fold is None:
        return _general(site, window, region, count)
    running = _cumulative_axis(site, window)
    if running is not None:
        return _cumulative(site, fold, *running)
    return _folded(site, window, fold)


def _folded(site: Site, window: _Window, fold: Any) -> Step:
    read, initial = site.reader(0), site.reader(1)
    target = site.instruction.results[0]
    inside = compute_dtype(site.result_type().dtype)
    splits = len(site.result_shape()) > 0 and window.size[0] == 1 and window.strides[0] == 1 and not any(window.padding[0])
    splits = splits and window.base_dilations[0] == 1

    def fold_part(source: Array, out: Array, start: Array) -> None:
        total = window.pad(source.astype(inside, copy=False), start)
        for axis, size in enumerate(window.size):
            if size > 1 or window.strides[axis] > 1:
                total = _fold_axis(total, axis, window, out.shape[axis], fold)
        np.copyto(out, fold(total, start), casting="unsafe")

    def step(env: Environment) -> None:
        source, out = read(env), env[target]
        start = _scalar(initial(env).astype(inside, copy=False), out.ndim)
        if not splits or source.size <= _CHUNK:
            fold_part(source, out, start)
            return
        if site.lead:
            _over_cores(site, source, out, start, fold_part)
        else:
            _over_rows(site, source, out, start, fold_part)

    return step


def _fold_axis(array: Array, axis: int, window: _Window, count: int, fold: Any) -> Array:
    """Fold the window's extent along one axis: the axes of a window are independent of each other."""
    lead, step, dilation = (slice(None),) * axis, window.strides[axis], window.dilations[axis]
    parts = [
        array[(*lead, slice(k * dilation, k * dilation + (count - 1) * step + 1, step))] for k in range(window.size[axis])
    ]
    if len(parts) == 1 or count == 0:
        return parts[0]
    total: Array = fold(parts[0], parts[1])
    for part in parts[2:]:
        fold(total, part, out=total)
    return total


def _over_rows(site: Site, source: Array, out: Array, start: Array, fold_part: Any) -> None:
    rows = max(1, source.shape[0] * _CHUNK // max(1, source.size))

    def work(chunk: int, _: int) -> None:
        part = slice(chunk * rows, (chunk + 1) * rows)
        fold_part(source[part], out[part], start)

    site.workers.run(-(-source.shape[0] // rows), work)


def _over_cores(site: Site, source: Array, out: Array, start: Array, fold_part: Any) -> None:
    """Cut by core and, where the next dimension isn't windowed, by its rows too."""
    free = source.ndim > 1 and source.shape[1] == out.shape[1] and site.attributes["window"][0] == 1
    free = free and not any(site.attributes["padding"][0])
    per_core = source.shape[1] if free else 1
    rows = max(1, per_core * _CHUNK // max(1, source.size // source.shape[0])) if free else 1
    pieces = -(-per_core // rows)

    def work(chunk: int, _: int) -> None:
        core, piece = divmod(chunk, pieces)
        cut = (slice(core, core + 1), slice(piece * rows, (piece + 1) * rows)) if free else (slice(core, core + 1),)
        fold_part(source[cut], out[cut], start[core : core + 1] if start.shape[0] > 1 else start)

    site.workers.run(source.shape[0] * pieces, work)


def _cumulative_axis(site: Site, window: _Window) -> tuple[int, bool] | None:
    """(axis, reversed) if this is a running sum, maximum, ... along one axis."""
    shape = site.result_shape()
    long = [d for d, size in enumerate(window.size) if size > 1]
    plain = all(s == 1 for s in (*window.strides, *window.base_dilations, *window.dilations))
    if len(long) != 1 or not plain:
        return None
    axis = long[0]
    size = shape[axis]
    if window.size[axis] != size or any(p != (0, 0) for d, p in enumerate(window.padding) if d != axis):
        return None
    low, high = window.padding[axis]
    if (low, high) == (size - 1, 0):
        return axis, False
    return (axis, True) if (low, high) == (0, size - 1) else None


def _cumulative(site: Site, fold: Any, axis: int, backwards: bool) -> Step:
    read, initial = site.reader(0), site.reader(1)
    target = site.instruction.results[0]
    inside = compute_dtype(site.result_type().dtype)

    def step(env: Environment) -> None:
        source, out = read(env), env[target]
        if backwards:
            source, out = np.flip(source, axis), np.flip(out, axis)
        total = fold.accumulate(source.astype(inside, copy=False), axis=axis, dtype=inside)
        np.copyto(out, fold(total, _scalar(initial(env).astype(inside), out.ndim)), casting="unsafe")

    return step


def _general(site: Site, window: _Window, region: Computation, count: int) -> Step:
    readers = [site.reader(i) for i in range(2 * count)]
    offsets = window.offsets()
    captured = dict(region.captures)

    def step(env: Environment) -> None:
        outside = {inner: env[outer] for inner, outer in captured.items()}
        shape = env[site.instruction.results[0]].shape
        starts = [_scalar(read(env), len(shape)) for read in readers[count:]]
        padded = [window.pad(read(env), start) for read, start in zip(readers[:count], starts, strict=True)]
        totals = [np.broadcast_to(start, shape) for start in starts]
        for offset in offsets:
            cut = window.at(offset, shape)
            totals = evaluate(region, [*totals, *(array[cut] for array in padded)], outside)
        for value, total in zip(site.instruction.results, totals, strict=True):
            np.copyto(env[value], total)

    return step


def build_select_and_scatter(site: Site) -> Step:
    """The gradient of pooling: each window's source value goes to the element that the window selects, the first best."""
    window = _Window(site)
    select, scatter = site.instruction.regions
    read, read_source, initial = site.reader(0), site.reader(1), site.reader(2)
    target = site.instruction.results[0]
    inside = compute_dtype(site.result_type().dtype)
    offsets = window.offsets()
    fold = fold_of(scatter, site.result_type().dtype)
    direction = next((i.attributes["direction"] for i in select.instructions if i.op == "compare"), "GE")
    better = np.maximum if direction in {"GE", "GT"} else np.minimum
    worst = _worst(inside, direction)
    zero = np.zeros((), inside)

    def scatter_part(operand: Array, source: Array, out: Array, start: Array) -> None:
        values = window.pad(operand.astype(inside, copy=False), worst)
        candidates = [np.ascontiguousarray(values[window.at(offset, source.shape)]) for offset in offsets]
        best = candidates[0].copy()
        for candidate in candidates[1:]:
            better(best, candidate, out=best)
        whole = not window.pads() and out.dtype == inside
        total = out if whole else np.empty(window.padded_shape(operand.shape), inside)
        total[...] = start
        view = total if whole else total[window.crop(total.shape)]
        free = np.ones(source.shape, np.bool_)
        for offset, candidate in zip(offsets, candidates, strict=True):
            here = np.logical_and(np.equal(candidate, best), free)
            np.greater(free, here, out=free)
            place = view[window.at(offset, source.shape)]
            if fold is np.add:
                VECTOR_OPS["select"](here, source, zero, candidate)
                np.add(place, candidate, out=place)
            else:
                np.copyto(place, evaluate(scatter, [place, source])[0], where=here)
        if not whole:
            np.copyto(out, total[window.interior(operand.shape)], casting="unsafe")

    def step(env: Environment) -> None:
        operand, source, out = read(env), read_source(env), env[target]
        start = _scalar(initial(env).astype(inside, copy=False), out.ndim)
        source = source.astype(inside, copy=False)
        axis = site.lead
        whole_axis = source.ndim > axis and window.size[axis] == 1 and operand.shape[axis] == source.shape[axis]
        if operand.size <= _CHUNK or not whole_axis:
            scatter_part(operand, source, out, start)
            return
        cores = operand.shape[0] if axis else 1
        size = operand.shape[axis]
        rows = max(1, size * _CHUNK // max(1, operand.size // cores))
        pieces = -(-size // rows)

        def work(chunk: int, _: int) -> None:
            core, piece = divmod(chunk, pieces)
            rows_part = slice(piece * rows, (piece + 1) * rows)
            cut = (slice(core, core + 1), rows_part) if axis else (rows_part,)
            here = start[core : core + 1] if axis and start.shape[0] > 1 else start
            scatter_part(operand[cut], source[cut], out[cut], here)

        site.workers.run(cores * pieces, work)

    return step


def _worst(dtype: np.dtype[Any], direction: str) -> Any:
    largest = direction in {"GE", "GT"}
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    if dtype.kind == "b":
        return not largest
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


KERNELS = {
    "reduce_window": Kernel(build_reduce_window),
    "select_and_scatter": Kernel(build_select_and_scatter),
}
