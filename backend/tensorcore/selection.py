"""How does the gradient of pooling run? ``select_and_scatter``.

Each window's source value goes to the element that the window selects: the first of the best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import VECTOR_OPS, compute_dtype
from backend.tensorcore.window import Window, of_core, pieces, scalar


def build(site: Site) -> Step:
    """The step of a ``select_and_scatter``."""
    window = Window(site)
    work_on = _Scatter(site, window)
    read, read_source, initial = site.reader(0), site.reader(1), site.reader(2)
    target = site.instruction.results[0]
    inside = compute_dtype(site.result_type().dtype)

    def step(env: Environment) -> None:
        operand, source, out = read(env), read_source(env).astype(inside, copy=False), env[target]
        start = scalar(initial(env).astype(inside, copy=False), out.ndim)
        cuts = pieces(site, window, operand.shape, source.shape)

        def work(piece: int, _: int) -> None:
            cut = cuts[piece]
            work_on(operand[cut], source[cut], out[cut], of_core(start, cut))

        site.workers.run(len(cuts), work)

    return step


class _Scatter:
    """Selects and scatters in one piece of the arrays."""

    def __init__(self, site: Site, window: Window) -> None:
        select, self._scatter = site.instruction.regions
        self._window = window
        self._offsets = window.offsets()
        self._inside = compute_dtype(site.result_type().dtype)
        self._adds = fold_of(self._scatter, site.result_type().dtype) is np.add
        direction = next((i.attributes["direction"] for i in select.instructions if i.op == "compare"), "GE")
        self._better = np.maximum if direction in {"GE", "GT"} else np.minimum
        self._worst = _worst(self._inside, direction)
        self._zero = np.zeros((), self._inside)

    def __call__(self, operand: Array, source: Array, out: Array, start: Array) -> None:
        window = self._window
        values = window.pad(operand.astype(self._inside, copy=False), self._worst)
        real = window.pad(np.ones(operand.shape, np.bool_), False) if window.pads() else None
        candidates = [values[window.at(offset, source.shape)].copy() for offset in self._offsets]
        best = candidates[0].copy()
        for candidate in candidates[1:]:
            self._better(best, candidate, out=best)
        lost = np.isnan(best) if best.dtype.kind == "f" else None
        direct = not window.pads() and out.dtype == self._inside
        total = out if direct else np.empty(window.padded_shape(operand.shape), self._inside)
        total[...] = start
        view = total if direct else total[window.crop(total.shape)]
        free = np.ones(source.shape, np.bool_)
        for offset, candidate in zip(self._offsets, candidates, strict=True):
            here = np.logical_and(_matches(candidate, best, lost), free)
            if real is not None:
                np.logical_and(here, real[window.at(offset, source.shape)], out=here)
            np.greater(free, here, out=free)
            self._put(view[window.at(offset, source.shape)], source, here, candidate)
        if not direct:
            np.copyto(out, total[window.interior(operand.shape)], casting="unsafe")

    def _put(self, place: Array, source: Array, here: Array, spare: Array) -> None:
        if self._adds:
            VECTOR_OPS["select"](here, source, self._zero, spare)
            np.add(place, spare, out=place)
        else:
            np.copyto(place, evaluate(self._scatter, [place, source])[0], where=here)


def _matches(candidate: Array, best: Array, lost: Array | None) -> Array:
    """Where a candidate is its window's best; NaN is the best of a window that has one."""
    same: Array = np.equal(candidate, best)
    if lost is not None and lost.any():
        np.logical_or(same, np.logical_and(lost, np.isnan(candidate)), out=same)
    return same


def _worst(dtype: np.dtype[Any], direction: str) -> Any:
    largest = direction in {"GE", "GT"}
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    if dtype.kind == "b":
        return not largest
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


KERNELS = {"select_and_scatter": Kernel(build)}
