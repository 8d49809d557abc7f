"""How are sliding windows reduced? Pooling and cumulative sums.

A window is folded one axis at a time: at each offset a strided slice of the whole input joins the fold.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import compute_dtype

_CHUNK = 1 << 18


class Window:
    """A window's geometry with the core axis, if any, as a dimension of size 1 in the window."""

    def __init__(self, site: Site) -> None:
        a, lead = site.attributes, site.lead
        self.size = [1] * lead + a["window"]
        self.strides = [1] * lead + a["strides"]
        self.base_dilations = [1] * lead + a["base_dilations"]
        self.dilations = [1] * lead + a["window_dilations"]
        self.padding = [(0, 0)] * lead + a["padding"]

    def is_trivial(self, axis: int) -> bool:
        """Whether windows don't reach along an axis."""
        steps = (self.size[axis], self.strides[axis], self.base_dilations[axis])
        return steps == (1, 1, 1) and self.padding[axis] == (0, 0)

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


def pieces(site: Site, window: Window, *shapes: tuple[int, ...]) -> list[Any]:
    """Cuts of all arrays of these shapes into pieces that can be worked on alone: by core, or several, then by rows.

    Rows are those of the first dimension after the core axis, if no window reaches across them.
    """
    lead = site.lead
    cores = shapes[0][0] if lead else 1
    if max(int(np.prod(shape, dtype=np.int64)) for shape in shapes) <= _CHUNK:
        return [(...,)]
    alone = len(shapes[0]) > lead and window.is_trivial(lead)
    own = max(int(np.prod(shape[lead:], dtype=np.int64)) for shape in shapes)
    together = max(1, _CHUNK // max(1, own))
    by_core: list[Any] = [(slice(core, core + together),) for core in range(0, cores, together)] if lead else [()]
    if not alone or (lead and together > 1):
        return by_core if lead else [(...,)]
    count = shapes[0][lead]
    largest = max(int(np.prod(shape[lead + 1 :], dtype=np.int64)) for shape in shapes)
    rows = max(1, _CHUNK // max(1, largest))
    return [(*core, slice(low, low + rows)) for core in by_core for low in range(0, count, rows)]


def of_core(start: Array, cut: Any) -> Array:
    """The initial value for a piece: that of its core, if it differs from core to core."""
    per_core = start.ndim > 0 and start.shape[0] > 1 and cut != (...,)
    return start[cut[0]] if per_core else start


def scalar(array: Array, ndim: int) -> Array:
    return array.reshape(array.shape + (1,) * (ndim - array.ndim))


def build_reduce_window(site: Site) -> Step:
    """``reduce_window`` with any reducer."""
    window = Window(site)
    region = site.instruction.regions[0]
    count = len(site.instruction.results)
    fold = fold_of(region, site.operand_type(0).dtype) if count == 1 else None
    if fold is None:
        return _general(site, window, region, count)
    running = _cumulative_axis(site, window)
    if running is not None:
        return _cumulative(site, fold, *running)
    return _folded(site, window, fold)


def _folded(site: Site, window: Window, fold: Any) -> Step:
    read, initial = site.reader(0), site.reader(1)
    target = site.instruction.results[0]
    inside = compute_dtype(site.result_type().dtype)

    def fold_part(source: Array, out: Array, start: Array) -> None:
        total = window.pad(source.astype(inside, copy=False), start)
        for axis, size in enumerate(window.size):
            if size > 1 or window.strides[axis] > 1:
                total = _fold_axis(total, axis, window, out.shape[axis], fold)
        np.copyto(out, fold(total, start), casting="unsafe")

    def step(env: Environment) -> None:
        source, out = read(env), env[target]
        start = scalar(initial(env).astype(inside, copy=False), out.ndim)
        cuts = pieces(site, window, source.shape, out.shape)

        def work(piece: int, _: int) -> None:
            cut = cuts[piece]
            fold_part(source[cut], out[cut], of_core(start, cut))

        site.workers.run(len(cuts), work)

    return step


def _fold_axis(array: Array, axis: int, window: Window, count: int, fold: Any) -> Array:
    """Fold the window's extent along one axis: the axes of a window are independent of each other."""
    lead, step, dilation = (slice(None),) * axis, window.strides[axis], window.dilations[axis]
    parts = [
        array[(*lead, slice(k * dilation, k * dilation + (count - 1) * step + 1, step))]
        for k in range(window.size[axis])
    ]
    if len(parts) == 1 or count == 0:
        return parts[0]
    total: Array = fold(parts[0], parts[1])
    for part in parts[2:]:
        fold(total, part, out=total)
    return total


def _cumulative_axis(site: Site, window: Window) -> tuple[int, bool] | None:
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
        np.copyto(out, fold(total, scalar(initial(env).astype(inside), out.ndim)), casting="unsafe")

    return step


def _general(site: Site, window: Window, region: Computation, count: int) -> Step:
    readers = [site.reader(i) for i in range(2 * count)]
    offsets = window.offsets()
    captured = dict(region.captures)

    def step(env: Environment) -> None:
        outside = {inner: env[outer] for inner, outer in captured.items()}
        shape = env[site.instruction.results[0]].shape
        starts = [scalar(read(env), len(shape)) for read in readers[count:]]
        padded = [window.pad(read(env), start) for read, start in zip(readers[:count], starts, strict=True)]
        totals = [np.broadcast_to(start, shape) for start in starts]
        for offset in offsets:
            cut = window.at(offset, shape)
            totals = evaluate(region, [*totals, *(array[cut] for array in padded)], outside)
        for value, total in zip(site.instruction.results, totals, strict=True):
            np.copyto(env[value], total)

    return step


KERNELS = {"reduce_window": Kernel(build_reduce_window)}
