"""What does the matrix unit do? Multiplies bfloat16 operands exactly, and sums in float32.

The product of two bfloat16 numbers is exact in float32, so a float32 GEMM over rounded operands is the same arithmetic;
BLAS does it. The compiler has rounded the operands (backend.compiler.rounding). Work is cut into chunks that depend on
shapes only, so the bits don't depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.threads import Workers
from backend.tensorcore.vector import BFLOAT16

_COPY_CHUNK = 1 << 16
_SHORTEST = 256
"""Rows or columns up to which a product is not cut."""
_TILE = 1024
_ALIGNED = 16
_LONG_CONTRACTION = 2048
_SMALL_FLOPS = 1 << 21


def operand_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which operands of these types are multiplied."""
    widest = np.result_type(*(d if d.kind in "fciub" else np.float32 for d in dtypes))
    if widest == np.float16:
        return np.dtype(np.float32)
    if widest.kind in "iub":
        return np.dtype(np.float64 if widest.itemsize <= 2 else np.int64)
    return widest


def copy_in_parallel(workers: Workers, source: Array, out: Array) -> None:
    """Copy ``source`` into ``out`` (same shape, perhaps another type), cut along the first axis that is long enough."""
    if out.size <= 2 * _COPY_CHUNK or out.ndim == 0:
        _copy(source, out)
        return
    axis = next((i for i, size in enumerate(out.shape) if size > 1), 0)
    lead = (0,) * axis
    size = out.shape[axis]
    rows = max(1, size * _COPY_CHUNK // out.size)

    def work(chunk: int, _: int) -> None:
        index: Any = (*lead, slice(chunk * rows, (chunk + 1) * rows))
        _copy(source[index], out[index])

    workers.run(-(-size // rows), work)


def _copy(source: Array, out: Array) -> None:
    """Copy, and widen: bfloat16's bits are float32's upper half, which is faster than a conversion."""
    if source.dtype == BFLOAT16 and out.dtype == np.float32:
        np.left_shift(source.view(np.uint16), np.uint32(16), out=out.view(np.uint32), dtype=np.uint32)
    else:
        np.copyto(out, source, casting="unsafe")


def build_dot(site: Site) -> Step:
    """``dot_general``, alone or summed over all cores."""
    a = site.attributes
    over_cores = bool(a.get("over_cores"))
    lhs_core, rhs_core = not site.uniform(0), not site.uniform(1)
    lhs, rhs = _sides(site, a, over_cores, lhs_core, rhs_core)
    batch, rows, contract, columns = lhs.batch_size, lhs.free_size, lhs.contract_size, rhs.free_size
    dtype = operand_dtype(site.operand_type(0).dtype, site.operand_type(1).dtype)
    left = _Loader(site, 0, lhs, dtype, contract_last=True)
    right = _Loader(site, 1, rhs, dtype, contract_last=False)
    out_dtype = site.result_type().dtype
    direct = out_dtype == dtype
    wide = None if direct else site.scratch((batch, rows, columns), dtype)
    target = site.instruction.results[0]
    multiply = _multiplier(site, batch, rows, contract, columns, dtype)

    def step(env: Environment) -> None:
        x, y = left.load(env), right.load(env)
        out = env[target].reshape(batch, rows, columns)
        if wide is None:
            multiply(x, y, out)
        else:
            multiply(x, y, wide)
            np.copyto(out, wide, casting="unsafe")

    return step


class _Side:
    """How the dimensions of one operand are read: which are batch, free and contracting, in order."""

    def __init__(self, shape: tuple[int, ...], batch: list[int], free: list[int], contract: list[int]) -> None:
        self.shape, self.batch, self.free, self.contract = shape, batch, free, contract
        self.batch_size = _size(shape, batch)
        self.free_size = _size(shape, free)
        self.contract_size = _size(shape, contract)


def _size(shape: tuple[int, ...], dims: list[int]) -> int:
    return int(np.prod([shape[d] for d in dims], dtype=np.int64))


def _sides(site: Site, a: dict[str, Any], over_cores: bool, lhs_core: bool, rhs_core: bool) -> tuple[_Side, _Side]:
    """Both operands' dimensions, the core axis among them.

    The core axis is contracted (``over_cores``); or merged into the rows (only the left operand is per-core and there
    is no other batch); or a batch dimension.
    """
    shapes = [site.operand(0).shape, site.operand(1).shape]
    names = [("lhs_batch", "lhs_contract"), ("rhs_batch", "rhs_contract")]
    cores = [lhs_core, rhs_core]
    merged = lhs_core and not rhs_core and not a["lhs_batch"]
    sides = []
    for shape, (batch_name, contract_name), core in zip(shapes, names, cores, strict=True):
        shift = int(core)
        batch = [d + shift for d in a[batch_name]]
        contract = [d + shift for d in a[contract_name]]
        free = [d for d in range(shift, len(shape)) if d not in batch and d not in contract]
        if core and over_cores:
            contract = [0, *contract]
        elif core and merged:
            free = [0, *free]
        elif core:
            batch = [0, *batch]
        sides.append(_Side(shape, batch, free, contract))
    if not over_cores and not merged and lhs_core != rhs_core:
        shared = sides[1] if lhs_core else sides[0]
        shared.batch_size *= site.num_cores
    return sides[0], sides[1]


class _Loader:
    """Brings an operand into (batch, rows, columns) form; copies it, in the cheaper order, only if it must."""

    def __init__(self, site: Site, position: int, side: _Side, dtype: np.dtype[Any], contract_last: bool) -> None:
        self._value = site.instruction.operands[position]
        self._workers = site.workers
        source = site.operand(position)
        first, second = (side.free, side.contract) if contract_last else (side.contract, side.free)
        self._swap = _innermost(source, first) < _innermost(source, second)
        order = [*side.batch, *(second if self._swap else first), *(first if self._swap else second)]
        self._order = order
        own_batch = _size(side.shape, side.batch)
        sizes = [_size(side.shape, first), _size(side.shape, second)]
        matrix = (own_batch, *(reversed(sizes) if self._swap else sizes))
        self._batch, self._own_batch = side.batch_size, own_batch
        self._same = source.dtype == dtype and _reshapes(source.transpose(order), matrix)
        self._matrix = matrix
        transposed = source.transpose(order)
        self._buffer = None if self._same else site.scratch(transposed.shape, dtype)

    def load(self, env: Environment) -> Array:
        source = env[self._value].transpose(self._order)
        if self._buffer is not None:
            copy_in_parallel(self._workers, source, self._buffer)
            source = self._buffer
        matrix = source.reshape(self._matrix)
        if self._swap:
            matrix = matrix.swapaxes(1, 2)
        if self._own_batch > 1 and self._own_batch != self._batch:  # every core has the whole batch
            matrix = np.broadcast_to(matrix, (self._batch // self._own_batch, *matrix.shape))
            return matrix.reshape(self._batch, *matrix.shape[2:])
        return np.broadcast_to(matrix, (self._batch, *matrix.shape[1:]))


def _innermost(source: Array, dims: list[int]) -> int:
    """Stride of the last of ``dims`` that is longer than 1."""
    long = [source.strides[d] for d in dims if source.shape[d] > 1]
    return abs(long[-1]) if long else 1 << 62


def _reshapes(array: Array, shape: tuple[int, ...]) -> bool:
    try:
        np.reshape(array, shape, copy=False)
    except ValueError:
        return False
    return True


Multiply = Callable[[Array, Array, Array], None]


def _multiplier(site: Site, batch: int, rows: int, contract: int, columns: int, dtype: np.dtype[Any]) -> Multiply:
    """A function (x, y, out) for (batch, rows, contract) by (batch, contract, columns), spread over the threads."""
    workers = site.workers
    if batch * rows * contract * columns <= _SMALL_FLOPS:
        return _whole
    if batch > 1:
        group = max(1, _SMALL_FLOPS // max(1, rows * contract * columns))

        def by_batch(x: Array, y: Array, out: Array) -> None:
            def work(chunk: int, _: int) -> None:
                part = slice(chunk * group, (chunk + 1) * group)
                np.matmul(x[part], y[part], out=out[part])

            workers.run(-(-batch // group), work)

        return by_batch
    if max(rows, columns) > _SHORTEST:
        return _by_tiles(workers, _cuts(rows), _cuts(columns))
    if contract >= _LONG_CONTRACTION:
        pieces = 8
        partial = site.scratch((pieces, rows, columns), dtype)
        size = -(-contract // pieces)

        def by_contraction(x: Array, y: Array, out: Array) -> None:
            def work(piece: int, _: int) -> None:
                part = slice(piece * size, (piece + 1) * size)
                np.matmul(x[0, :, part], y[0, part], out=partial[piece])

            workers.run(pieces, work)
            np.add.reduce(partial, axis=0, out=out[0])

        return by_contraction
    return _whole


def _whole(x: Array, y: Array, out: Array) -> None:
    np.matmul(x, y, out=out)


def _cuts(size: int) -> list[slice]:
    """An even number of pieces of at most ``_TILE``: BLAS writes its operands out for every piece."""
    if size <= _SHORTEST:
        return [slice(0, size)]
    count = 2 * -(-size // (2 * _TILE))
    step = -(-size // (count * _ALIGNED)) * _ALIGNED
    return [slice(low, min(size, low + step)) for low in range(0, size, step)]


def _by_tiles(workers: Workers, rows: list[slice], columns: list[slice]) -> Multiply:
    tiles = list(product(rows, columns))

    def run(x: Array, y: Array, out: Array) -> None:
        def work(tile: int, _: int) -> None:
            across, down = tiles[tile]
            np.matmul(x[0, across], y[0, :, down], out=out[0, across, down])

        workers.run(len(tiles), work)

    return run


KERNELS = {"dot_general": Kernel(build_dot)}
