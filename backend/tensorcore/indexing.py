"""How is data read and written at computed places? Gather, scatter, dynamic slices.

A per-core operand is indexed per core: the core axis becomes one more batching dimension of operand and indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.compiler.simplify import reducer
from backend.tensorcore.fusion import evaluate
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.reduction import fold_of
from backend.tensorcore.vector import compute_dtype

# ---- dynamic slices


def _starts(env: Environment, operands: list[int], limits: list[int]) -> list[Any]:
    """Start indices, clamped to 0..limit: integers where uniform, arrays over the cores where not."""
    starts: list[Any] = []
    for value, limit in zip(operands, limits, strict=True):
        index = env[value]
        starts.append(min(max(int(index), 0), limit) if index.ndim == 0 else np.clip(index.astype(np.int64), 0, limit))
    return starts


def build_dynamic_slice(site: Site) -> Step:
    """``dynamic_slice``: start indices may differ from core to core."""
    sizes: list[int] = site.attributes["sizes"]
    shape = site.operand_type(0).shape
    limits = [n - size for n, size in zip(shape, sizes, strict=True)]
    indices = site.instruction.operands[1:]
    read, target, lead = site.reader(0), site.instruction.results[0], site.lead

    def step(env: Environment) -> None:
        starts = _starts(env, indices, limits)
        source = read(env)
        if all(isinstance(start, int) for start in starts):
            cut = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
            np.copyto(env[target], source[(slice(None),) * lead + cut])
            return
        env[target][...] = source[_core_index(starts, sizes, source.shape[0])]

    return step


def build_dynamic_update_slice(site: Site) -> Step:
    """``dynamic_update_slice``: in place where the operand isn't needed afterwards."""
    sizes = site.operand_type(1).shape
    limits = [n - size for n, size in zip(site.operand_type(0).shape, sizes, strict=True)]
    indices = site.instruction.operands[2:]
    read, read_update = site.reader(0), site.reader(1)
    target, lead = site.instruction.results[0], site.lead

    def step(env: Environment) -> None:
        out, source = env[target], read(env)
        if out is not source:
            np.copyto(out, source)
        starts = _starts(env, indices, limits)
        if all(isinstance(start, int) for start in starts):
            cut = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
            out[(slice(None),) * lead + cut] = read_update(env)
            return
        out[_core_index(starts, list(sizes), out.shape[0])] = read_update(env)

    return step


def _core_index(starts: list[Any], sizes: list[int], cores: int) -> tuple[Array, ...]:
    ndim = len(sizes) + 1
    index = [np.arange(cores).reshape(-1, *([1] * (ndim - 1)))]
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True), 1):
        base = np.asarray(start).reshape(-1, *([1] * (ndim - 1)))
        index.append(base + np.arange(size).reshape([-1 if d == axis else 1 for d in range(ndim)]))
    return tuple(index)


# ---- gather and scatter


@dataclass(frozen=True)
class _Numbers:
    """Dimension numbers of a gather or scatter, the core axis included as a batching dimension."""

    window: list[int]  # dimensions of the result (gather) or of the updates (scatter) that move inside a slice
    dropped: list[int]  # operand dimensions of slice size 1 that the window doesn't show
    operand_batching: list[int]
    indices_batching: list[int]
    indexed: list[int]  # operand dimension of each component of an index vector
    vector_dim: int

    def with_core_axis(self) -> _Numbers:
        def shift(dims: list[int]) -> list[int]:
            return [d + 1 for d in dims]

        return _Numbers(
            shift(self.window),
            shift(self.dropped),
            [0, *shift(self.operand_batching)],
            [0, *shift(self.indices_batching)],
            shift(self.indexed),
            self.vector_dim + 1,
        )

    def window_operand_dims(self, ndim: int) -> list[int]:
        return [d for d in range(ndim) if d not in self.dropped and d not in self.operand_batching]


def _vectors(indices: Array, vector_dim: int) -> Array:
    """Indices as int64 with the index vector last."""
    indices = indices.astype(np.int64)
    return indices[..., np.newaxis] if vector_dim == indices.ndim else np.moveaxis(indices, vector_dim, -1)


def _batch_position(numbers: _Numbers, operand_dim: int) -> int:
    axis = numbers.indices_batching[numbers.operand_batching.index(operand_dim)]
    return axis if axis < numbers.vector_dim else axis - 1


def _along(size: int, axis: int, ndim: int) -> Array:
    return np.arange(size).reshape([-1 if d == axis else 1 for d in range(ndim)])


def build_gather(site: Site) -> Step:
    """``gather``: start indices are clamped so that slices stay inside."""
    a = site.attributes
    numbers = _Numbers(
        a["offset_dims"],
        a["collapsed"],
        a["operand_batching"],
        a["indices_batching"],
        a["start_index_map"],
        a["index_vector_dim"],
    )
    sizes: list[int] = a["slice_sizes"]
    if site.lead:
        numbers, sizes = numbers.with_core_axis(), [1, *sizes]
    read, read_indices, target = site.reader(0), site.reader(1), site.instruction.results[0]
    batch = site.lead + len(site.operand_type(1).shape) - int(a["index_vector_dim"] < len(site.operand_type(1).shape))
    taken = _takes_rows(numbers, sizes, (1,) * site.lead + site.operand_type(0).shape, site.lead, batch)
    uniform_operand = site.uniform(0)
    operand = site.instruction.operands[0]

    def step(env: Environment) -> None:
        indices = read_indices(env)
        out = env[target]
        if taken and (uniform_operand or not site.lead):
            rows = _vectors(indices, numbers.vector_dim)[..., 0]
            np.take(env[operand], np.clip(rows, 0, env[operand].shape[0] - 1), axis=0, out=out, mode="clip")
            return
        np.copyto(out, _gather(read(env), indices, numbers, sizes))

    return step


def _takes_rows(numbers: _Numbers, sizes: list[int], shape: tuple[int, ...], lead: int, batch: int) -> bool:
    """Whether whole rows of the operand's first dimension are read, in order: an embedding. ``batch``: dimensions."""
    rows = numbers.indexed == [lead] and numbers.dropped == [lead] and sizes[lead + 1 :] == list(shape[lead + 1 :])
    trailing = numbers.window == sorted(numbers.window) and len(numbers.operand_batching) == lead
    last = not numbers.window or numbers.window[0] >= batch
    return rows and trailing and last and sizes[lead] == 1


def _gather(operand: Array, indices: Array, numbers: _Numbers, sizes: list[int]) -> Array:
    vectors = _vectors(indices, numbers.vector_dim)
    batch = vectors.shape[:-1]
    window_dims = numbers.window_operand_dims(operand.ndim)
    ndim = len(batch) + len(window_dims)
    index: list[Array] = []
    for d in range(operand.ndim):
        place = np.zeros((1,) * ndim, np.int64)
        if d in numbers.indexed:
            start = np.clip(vectors[..., numbers.indexed.index(d)], 0, operand.shape[d] - sizes[d])
            place = start.reshape(batch + (1,) * len(window_dims))
        if d in numbers.operand_batching:
            axis = _batch_position(numbers, d)
            place = place + _along(batch[axis], axis, ndim)
        if d in window_dims:
            place = place + _along(sizes[d], len(batch) + window_dims.index(d), ndim)
        index.append(place)
    shape = (*batch, *(sizes[d] for d in window_dims))
    result = operand[tuple(np.broadcast_to(i, shape) for i in index)] if index else np.broadcast_to(operand, shape)
    order = [0] * ndim
    batch_dims = [d for d in range(ndim) if d not in numbers.window]
    for position, d in enumerate(batch_dims):
        order[d] = position
    for position, d in enumerate(numbers.window):
        order[d] = len(batch) + position
    return result.transpose(order)


def build_scatter(site: Site) -> Step:
    """``scatter`` of any number of operands: updates that fall outside are dropped; updates are applied in order."""
    a = site.attributes
    numbers = _Numbers(
        a["update_window"],
        a["inserted"],
        a["operand_batching"],
        a["indices_batching"],
        a["scatter_dims"],
        a["index_vector_dim"],
    )
    if site.lead:
        numbers = numbers.with_core_axis()
    count = len(site.instruction.results)
    readers = [site.reader(i) for i in range(count)]
    read_indices = site.reader(count)
    update_readers = [site.reader(count + 1 + i) for i in range(count)]
    region = site.instruction.regions[0]
    kind = reducer(region)
    fold = fold_of(region, site.result_type().dtype) if count == 1 else None
    inside = compute_dtype(site.result_type().dtype)
    captured = dict(region.captures)

    def step(env: Environment) -> None:
        outs = [env[value] for value in site.instruction.results]
        for out, read in zip(outs, readers, strict=True):
            source = read(env)
            if out is not source:
                np.copyto(out, source)
        updates = [read(env) for read in update_readers]
        index, kept = _scatter_index(outs[0].shape, read_indices(env), updates[0], numbers)
        updates = [_in_batch_order(update, numbers)[kept] for update in updates]
        place = tuple(index)
        if count == 1 and kind == "second":
            outs[0][place] = (
                updates[0] if place else updates[0].reshape(-1)[-1:].reshape(()) if updates[0].size else outs[0]
            )
        elif fold is not None:
            wide = outs[0] if outs[0].dtype == inside else outs[0].astype(inside)
            _accumulate(fold, wide, place, updates[0].astype(inside, copy=False))
            if wide is not outs[0]:
                np.copyto(outs[0], wide, casting="unsafe")
        else:
            _one_by_one(region, outs, place, updates, {inner: env[outer] for inner, outer in captured.items()})

    return step


def _accumulate(fold: Any, out: Array, place: tuple[Array, ...], updates: Array) -> None:
    if not place:
        for update in updates.reshape(-1):
            fold(out, update, out=out)
        return
    fold.at(out, place, updates)


def _in_batch_order(updates: Array, numbers: _Numbers) -> Array:
    return updates.transpose([*(d for d in range(updates.ndim) if d not in numbers.window), *numbers.window])


def _scatter_index(
    shape: tuple[int, ...], indices: Array, update: Array, numbers: _Numbers
) -> tuple[list[Array], Array]:
    """Index arrays of the updates that fall inside, and the mask of those among all (batch first, window last)."""
    vectors = _vectors(indices, numbers.vector_dim)
    batch = vectors.shape[:-1]
    window_dims = numbers.window_operand_dims(len(shape))
    moved = _in_batch_order(update, numbers)
    ndim = moved.ndim
    inside = np.ones((1,) * ndim, bool)
    index: list[Array] = []
    for d in range(len(shape)):
        place = np.zeros((1,) * ndim, np.int64)
        size = moved.shape[len(batch) + window_dims.index(d)] if d in window_dims else 1
        if d in numbers.indexed:
            start = vectors[..., numbers.indexed.index(d)].reshape(batch + (1,) * len(window_dims))
            inside = inside & (start >= 0) & (start <= shape[d] - size)
            place = start
        if d in numbers.operand_batching:
            axis = _batch_position(numbers, d)
            place = place + _along(batch[axis], axis, ndim)
        if d in window_dims:
            place = place + _along(size, len(batch) + window_dims.index(d), ndim)
        index.append(place)
    kept = np.broadcast_to(inside, moved.shape)
    return [np.broadcast_to(place, moved.shape)[kept] for place in index], kept


def _one_by_one(
    region: Any, outs: list[Array], place: tuple[Array, ...], updates: list[Array], outside: dict[int, Array]
) -> None:
    for number in range(updates[0].size):
        spot = tuple(i[number] for i in place)
        new = evaluate(region, [*(out[spot] for out in outs), *(u.reshape(-1)[number] for u in updates)], outside)
        for out, value in zip(outs, new, strict=True):
            out[spot] = value


KERNELS = {
    "dynamic_slice": Kernel(build_dynamic_slice),
    "dynamic_update_slice": Kernel(build_dynamic_update_slice, in_place=True),
    "gather": Kernel(build_gather),
    "scatter": Kernel(build_scatter, in_place=True),
}
