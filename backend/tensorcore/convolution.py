"""How does the matrix unit run a convolution? As a blocked implicit GEMM.

Windows of a block of images are written out as rows (im2col) small enough for the cache and multiplied by the kernel.
Where the contraction is long and the output small (the gradient of a kernel: "images" are what is contracted), the
same rows are multiplied transposed and added up instead. Layouts are those of the instruction: windows are copied out
of strided views, so no layout needs a transpose of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backend.tensorcore.convolution_code import COLUMNS, FEATURES, contracting, sliding
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.mxu import operand_dtype
from backend.tensorcore.native import Function

_PATCH_BYTES = 3 << 20
_ACCUMULATORS = 4
_DIRECT_BYTES = 512 << 10
_DIRECT_COLUMNS = 64
"""A product of more columns is worth to have its windows written out."""
_DIRECT_POSITIONS = 4
_DIRECT_SUMS_BYTES = 256 << 10
_NEAREST_BYTES = 24 << 10

_Job = tuple[Array, Array, Array]  # input, kernel, output


@dataclass(frozen=True)
class _Geometry:
    """Spatial sizes and parameters, one entry a spatial dimension."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    strides: list[int]
    padding: list[tuple[int, int]]
    lhs_dilation: list[int]
    rhs_dilation: list[int]
    reversal: list[bool]

    @property
    def is_plain(self) -> bool:
        """Whether windows are single positions in order: a matrix product over features."""
        count = len(self.input)
        return (
            self.kernel == (1,) * count
            and self.strides == [1] * count
            and self.lhs_dilation == [1] * count
            and self.padding == [(0, 0)] * count
        )


def build(site: Site) -> Step:
    """The step of a ``convolution``, alone or summed over all cores."""
    a = site.attributes
    lhs_core, rhs_core = int(not site.uniform(0)), int(not site.uniform(1))
    input_order = [d + lhs_core for d in a["input"]]
    kernel_order = [d + rhs_core for d in a["kernel"]]
    output_order = [d + site.lead for d in a["output"]]
    x = site.operand(0).transpose([*range(lhs_core), *input_order])
    w = site.operand(1).transpose([*range(rhs_core), *kernel_order])
    out_shape = [site.result_shape()[d] for d in output_order]
    geometry = _Geometry(
        x.shape[lhs_core + 1 : -1],
        w.shape[rhs_core:-2],
        tuple(out_shape[1:-1]),
        a["strides"],
        a["padding"],
        a["lhs_dilation"],
        a["rhs_dilation"],
        a["reversal"],
    )
    dtype = operand_dtype(site.operand_type(0).dtype, site.operand_type(1).dtype)
    over_cores, images, features = bool(a.get("over_cores")), x.shape[lhs_core], x.shape[-1]
    groups = max(a["feature_groups"], a["batch_groups"])
    window, outputs = int(np.prod(geometry.kernel)), int(np.prod(geometry.output))
    summing = over_cores or (groups == 1 and window * features > images * outputs and features > 1)
    columns = w.shape[-1] // groups
    worker: _Contraction | _DirectContraction | _Sliding
    if summing:
        in_rows = x.strides[lhs_core] == x.itemsize and w.strides[-1] == w.itemsize and x.dtype == w.dtype == dtype
        add = _adding_code(geometry, images, columns, dtype) if in_rows and groups == 1 else None
        if add is not None:
            worker = _DirectContraction(site, geometry, features, images, columns, add, sum_jobs=over_cores)
        else:
            worker = _Contraction(site, geometry, features, images, columns, dtype, sum_jobs=over_cores)
    else:
        images, features = images // a["batch_groups"], features // a["feature_groups"]
        shared = not rhs_core and groups == 1
        in_rows = x.strides[-1] == x.itemsize and output_order[-1] == len(out_shape) + site.lead - 1
        code = _code(geometry, features, columns, dtype) if shared and in_rows else None
        if code is not None and site.result_type().dtype == dtype:
            worker = _Direct(site, geometry, images, features, columns, code)
        else:
            worker = _Sliding(site, geometry, images, features, columns, dtype, kernel_is_shared=shared)
    lhs, rhs, result = site.instruction.operands[0], site.instruction.operands[1], site.instruction.results[0]
    kernel_flip = tuple(slice(None, None, -1) if flip else slice(None) for flip in geometry.reversal)
    cores = site.num_cores if (lhs_core or rhs_core) else 1

    shown = np.empty(site.result_shape(), np.bool_).transpose([*range(site.lead), *output_order])
    joined = _join(x, w, shown, lhs_core, rhs_core, over_cores) if groups == 1 and summing == over_cores else None

    def step(env: Environment) -> None:
        inputs = env[lhs].transpose([*range(lhs_core), *input_order])
        kernels = env[rhs].transpose([*range(rhs_core), *kernel_order])[(slice(None),) * rhs_core + kernel_flip]
        outputs = env[result].transpose([*range(site.lead), *output_order])
        if joined is not None:
            worker.run([joined(inputs, kernels, outputs)])
            return
        jobs: list[_Job] = []
        for core in range(cores):
            source = inputs[core] if lhs_core else inputs
            kernel = kernels[core] if rhs_core else kernels
            target = outputs[core] if site.lead else outputs
            jobs += _groups(source, kernel, target, a)
        worker.run(jobs)

    return step


@dataclass(frozen=True)
class _Join:
    """Makes one job of those of all cores: the core axis joins that of images in whichever of the three has it."""

    input: int
    kernel: int | None
    output: int | None

    def __call__(self, x: Array, w: Array, out: Array) -> _Job:
        return _joined(x, self.input), _joined(w, self.kernel), _joined(out, self.output)

    def suits(self, x: Array, w: Array, out: Array) -> bool:
        """Whether that takes no copy."""
        try:
            self(x, w, out)
        except ValueError:
            return False
        return True


def _join(x: Array, w: Array, out: Array, lhs_core: int, rhs_core: int, over_cores: bool) -> _Join | None:
    """How the jobs of all cores become one; None where they must stay apart."""
    if over_cores and lhs_core and rhs_core:
        join = _Join(x.ndim - 1, w.ndim - 2, None)
    elif not over_cores and lhs_core and not rhs_core:
        join = _Join(1, None, 1)
    else:
        return None
    return join if join.suits(x, w, out) else None


def _joined(array: Array, axis: int | None) -> Array:
    """The first axis before ``axis`` and in one with it. Raises ValueError if that takes a copy."""
    if axis is None:
        return array
    moved = np.moveaxis(array, 0, axis - 1)
    shape = moved.shape
    return np.reshape(moved, (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :]), copy=False)


def _groups(x: Array, w: Array, out: Array, a: dict[str, Any]) -> list[_Job]:
    """Views of input, kernel and output for each feature or batch group."""
    if a["feature_groups"] > 1:
        count = a["feature_groups"]
        xs = np.split(x, count, axis=-1)
    elif a["batch_groups"] > 1:
        count = a["batch_groups"]
        xs = np.split(x, count, axis=0)
    else:
        return [(x, w, out)]
    return list(zip(xs, np.split(w, count, axis=-1), np.split(out, count, axis=-1), strict=True))


class _Patches:
    """Writes the windows of a few images out as rows. One set of buffers a thread."""

    def __init__(self, site: Site, geometry: _Geometry, images: int, features: int, dtype: np.dtype[Any]) -> None:
        self.geometry = geometry
        self._positive = [(max(0, low), max(0, high)) for low, high in geometry.padding]
        sizes = [
            max(0, (size - 1) * dilation + 1 if size else 0) + low + high
            for size, dilation, (low, high) in zip(geometry.input, geometry.lhs_dilation, self._positive, strict=True)
        ]
        self.buffers = [site.scratch((images, *sizes, features), dtype) for _ in range(site.workers.count)]
        self._inside = tuple(
            slice(low, low + max(0, (size - 1) * dilation + 1 if size else 0), dilation)
            for size, dilation, (low, _) in zip(geometry.input, geometry.lhs_dilation, self._positive, strict=True)
        )
        self._crop = tuple(
            slice(-min(0, low), size + min(0, high)) for size, (low, high) in zip(sizes, geometry.padding, strict=True)
        )
        self._has_holes = any(low or high for low, high in self._positive) or any(d > 1 for d in geometry.lhs_dilation)
        self._as_they_are = not self._has_holes and all(pads == (0, 0) for pads in geometry.padding)

    def clear(self) -> None:
        """Zero what padding and dilation leave empty."""
        if self._has_holes:
            for buffer in self.buffers:
                buffer.fill(0)

    def load(self, images: Array, thread: int) -> Array:
        """(images, padded spatial..., features): the thread's buffer filled from ``images``, or just these."""
        if self._as_they_are and images.dtype == self.buffers[thread].dtype:
            return images
        buffer = self.buffers[thread][: images.shape[0]]
        np.copyto(buffer[(slice(None), *self._inside)], images, casting="unsafe")
        return buffer[(slice(None), *self._crop)]

    def windows(
        self,
        padded: Array,
        outer: tuple[int, ...],
        outer_steps: list[int],
        inner_steps: list[int],
        inner: tuple[int, ...],
    ) -> Array:
        """(images, *outer, *inner, features): position ``outer * outer_steps + inner * inner_steps`` of each image."""
        strides = padded.strides
        spatial = strides[1:-1]
        return as_strided(
            padded,
            (padded.shape[0], *outer, *inner, padded.shape[-1]),
            (
                strides[0],
                *(s * step for s, step in zip(spatial, outer_steps, strict=True)),
                *(s * step for s, step in zip(spatial, inner_steps, strict=True)),
                strides[-1],
            ),
        )


class _Sliding:
    """Output by output: rows of windows times the kernel."""

    def __init__(
        self,
        site: Site,
        geometry: _Geometry,
        images: int,
        features: int,
        outputs: int,
        dtype: np.dtype[Any],
        kernel_is_shared: bool,
    ) -> None:
        self._geometry, self._workers, self._dtype = geometry, site.workers, dtype
        self._kernel_is_shared = kernel_is_shared
        window = int(np.prod(geometry.kernel)) * features
        positions = int(np.prod(geometry.output))
        image_bytes = max(1, positions * window * dtype.itemsize)
        self._images = max(1, min(images, _PATCH_BYTES // image_bytes))
        first = geometry.output[0] if geometry.output else 1
        self._rows = max(1, min(first, first * _PATCH_BYTES // image_bytes)) if self._images == 1 else first
        self._patches = _Patches(site, geometry, self._images, features, dtype)
        block_rows = self._images * self._rows * (positions // first if first else 0)
        self._rows_buffer = [site.scratch((block_rows, window), dtype) for _ in range(site.workers.count)]
        self._out_buffer = [site.scratch((block_rows, outputs), dtype) for _ in range(site.workers.count)]
        self._kernel = site.scratch((window, outputs), dtype)

    def run(self, jobs: list[_Job]) -> None:
        self._patches.clear()
        if self._kernel_is_shared:
            self._load_kernel(jobs[0][1])
            self._run_blocks([(x, out) for x, _, out in jobs])
        else:
            for x, w, out in jobs:
                self._load_kernel(w)
                self._run_blocks([(x, out)])

    def _load_kernel(self, w: Array) -> None:
        np.copyto(self._kernel.reshape(w.shape), w, casting="unsafe")

    def _run_blocks(self, jobs: list[tuple[Array, Array]]) -> None:
        geometry = self._geometry
        count = jobs[0][0].shape[0]
        first = geometry.output[0] if geometry.output else 1
        blocks = list(product(range(len(jobs)), range(0, count, self._images), range(0, first, self._rows)))

        def work(block: int, thread: int) -> None:
            job, image, row = blocks[block]
            x, out = jobs[job]
            self._block(x[image : image + self._images], out[image : image + self._images], row, thread)

        self._workers.run(len(blocks), work)

    def _block(self, images: Array, out: Array, row: int, thread: int) -> None:
        geometry = self._geometry
        padded = self._patches.load(images, thread)
        sizes = geometry.output
        if sizes:
            stop = min(sizes[0], row + self._rows)
            padded = padded[:, row * geometry.strides[0] :]
            sizes = (stop - row, *sizes[1:])
            out = out[:, row:stop]
        if geometry.is_plain:
            rows = (padded[:, : sizes[0]] if sizes else padded).reshape(-1, padded.shape[-1])
        else:
            windows = self._patches.windows(padded, sizes, geometry.strides, geometry.rhs_dilation, geometry.kernel)
            count = images.shape[0] * int(np.prod(sizes, dtype=np.int64))
            rows = self._rows_buffer[thread][:count]
            np.copyto(rows.reshape(windows.shape), windows)
        if out.dtype == self._dtype and out.flags.c_contiguous:
            np.matmul(rows, self._kernel, out=out.reshape(rows.shape[0], -1))
        else:
            buffer = self._out_buffer[thread][: rows.shape[0]]
            np.matmul(rows, self._kernel, out=buffer)
            np.copyto(out, buffer.reshape(out.shape), casting="unsafe")


def _code(geometry: _Geometry, features: int, columns: int, dtype: np.dtype[Any]) -> Function | None:
    """Machine code for windows that need not be written out: where that is faster, and the code is for it."""
    suits = dtype == np.float32 and not geometry.is_plain and len(geometry.output) in (1, 2)
    small = columns <= _DIRECT_COLUMNS and columns % COLUMNS == 0 and features % FEATURES == 0 and features > 0
    if not (suits and small and min(geometry.output) > 0 and geometry.output[-1] >= _DIRECT_POSITIONS):
        return None
    return sliding(geometry.output[-1])


class _Direct(_Sliding):
    """Windows times the kernel, register tile by register tile: they are not written out."""

    def __init__(
        self, site: Site, geometry: _Geometry, images: int, features: int, columns: int, code: Function
    ) -> None:
        self._geometry, self._workers, self._code, self._features = geometry, site.workers, code, features
        self._kernel_is_shared = True
        dtype = np.dtype(np.float32)
        self._images = max(1, min(images, _DIRECT_BYTES // (4 * features * max(1, int(np.prod(geometry.input))))))
        self._rows = geometry.output[0]
        self._patches = _Patches(site, geometry, self._images, features, dtype)
        window = int(np.prod(geometry.kernel))
        self._columns = site.scratch((columns // COLUMNS, window, features, COLUMNS), dtype)

    def _load_kernel(self, w: Array) -> None:
        blocks = w.reshape(*w.shape[:-1], -1, COLUMNS)
        target = self._columns.reshape(-1, *w.shape[:-1], COLUMNS)
        np.copyto(target, np.moveaxis(blocks, -2, 0), casting="unsafe")

    def _block(self, images: Array, out: Array, row: int, thread: int) -> None:
        padded = self._patches.load(images, thread)
        strides, steps = padded.strides[1:-1], self._geometry.strides
        ways = [stride * step for stride, step in zip(strides, self._geometry.rhs_dilation, strict=True)]
        taps = _offsets(self._geometry.kernel, ways)
        rows = self._geometry.output[0] if len(steps) == 2 else 1
        x_steps = [stride * step for stride, step in zip(strides, steps, strict=True)]
        for number in range(len(self._columns)):
            self._code(
                padded.ctypes.data,
                self._columns[number].ctypes.data,
                out.ctypes.data + number * COLUMNS * 4,
                taps.ctypes.data,
                len(taps),
                self._features,
                len(padded),
                rows,
                padded.strides[0],
                x_steps[0],
                x_steps[-1],
                out.strides[0],
                out.strides[1],
                out.strides[-2],
            )


class _Contraction:
    """Contraction by contraction: the transposed rows of windows times the other operand, added up.

    The input's features are the ``images`` that are summed over, its batch is what is called ``features`` elsewhere; a
    window is as large as the output.
    """

    def __init__(
        self,
        site: Site,
        geometry: _Geometry,
        images: int,
        batch: int,
        outputs: int,
        dtype: np.dtype[Any],
        sum_jobs: bool,
    ) -> None:
        self._geometry, self._workers = geometry, site.workers
        self._sum_jobs = sum_jobs
        self._kernel_size = int(np.prod(geometry.kernel))
        window = int(np.prod(geometry.output)) * batch
        image_bytes = max(1, self._kernel_size * window * dtype.itemsize)
        self._images = max(1, min(images, _PATCH_BYTES // image_bytes))
        self._patches = _Patches(site, geometry, self._images, batch, dtype)
        rows = self._images * self._kernel_size
        threads = site.workers.count
        self._rows_buffer = [site.scratch((rows, window), dtype) for _ in range(threads)]
        self._other_buffer = [site.scratch((rows, outputs), dtype) for _ in range(threads)]
        self._sums = site.scratch((_ACCUMULATORS, window, outputs), dtype)
        self._products = [site.scratch((window, outputs), dtype) for _ in range(threads)]

    def run(self, jobs: list[_Job]) -> None:
        self._patches.clear()
        if self._sum_jobs:
            self._sum([(x, w) for x, w, _ in jobs], jobs[0][2])
        else:
            for x, w, out in jobs:
                self._sum([(x, w)], out)

    def _sum(self, jobs: list[tuple[Array, Array]], out: Array) -> None:
        count = jobs[0][0].shape[-1]
        blocks = list(product(range(len(jobs)), range(0, count, self._images)))
        accumulators = min(_ACCUMULATORS, len(blocks))

        def work(accumulator: int, thread: int) -> None:
            total = self._sums[accumulator]
            for number, (job, image) in enumerate(blocks[accumulator::accumulators]):
                x, w = jobs[job]
                part = slice(image, image + self._images)
                rows, other = self._load(x[..., part], w[..., part, :], thread)
                target = total if number == 0 else self._products[thread]
                np.matmul(rows.T, other, out=target)
                if number:
                    np.add(total, target, out=total)

        self._workers.run(accumulators, work)
        for accumulator in range(1, accumulators):
            np.add(self._sums[0], self._sums[accumulator], out=self._sums[0])
        batch = out.shape[0]
        summed = self._sums[0].reshape(*self._geometry.output, batch, out.shape[-1])
        np.copyto(out, np.moveaxis(summed, -2, 0), casting="unsafe")

    def _load(self, x: Array, w: Array, thread: int) -> tuple[Array, Array]:
        geometry = self._geometry
        images = np.moveaxis(np.moveaxis(x, 0, -1), -2, 0)  # (batch, spatial, features) -> (features, spatial, batch)
        padded = self._patches.load(images, thread)
        windows = self._patches.windows(
            padded, geometry.kernel, geometry.rhs_dilation, geometry.strides, geometry.output
        )
        count = images.shape[0] * self._kernel_size
        rows = self._rows_buffer[thread][:count]
        np.copyto(rows.reshape(windows.shape), windows)
        other = self._other_buffer[thread][:count]
        source = np.moveaxis(w, -2, 0)
        np.copyto(other.reshape(source.shape), source, casting="unsafe")
        return rows, other


def _adding_code(geometry: _Geometry, batch: int, columns: int, dtype: np.dtype[Any]) -> Function | None:
    """Machine code for the same without rows that are written out, where all sums stay in a cache."""
    sums = int(np.prod(geometry.output)) * batch * columns
    suits = dtype == np.float32 and len(geometry.output) in (1, 2) and columns % COLUMNS == 0 and sums > 0
    if not (suits and sums * 4 <= _DIRECT_SUMS_BYTES and batch >= _DIRECT_POSITIONS and min(geometry.kernel) > 0):
        return None
    return contracting(batch)


class _DirectContraction:
    """The same, register tile by register tile: sums are (positions of the output, blocks of columns, batch, columns).

    The kernel is walked a few rows at a time, so that they and what they meet stay in the nearest cache.
    """

    def __init__(
        self,
        site: Site,
        geometry: _Geometry,
        images: int,
        batch: int,
        columns: int,
        code: Function,
        sum_jobs: bool,
    ) -> None:
        self._geometry, self._workers, self._code, self._sum_jobs = geometry, site.workers, code, sum_jobs
        dtype = np.dtype(np.float32)
        image_bytes = 4 * batch * max(1, int(np.prod(geometry.input)))
        self._images = max(1, min(images, _DIRECT_BYTES // image_bytes))
        self._patches = _Patches(site, geometry, self._images, batch, dtype)
        self._taps = int(np.prod(geometry.output))
        self._sums = site.scratch((_ACCUMULATORS, self._taps, columns // COLUMNS, batch, COLUMNS), dtype)
        self._all_rows = geometry.kernel[0] if len(geometry.kernel) == 2 else 1
        row_bytes = 4 * geometry.kernel[-1] * (batch + columns)
        most = max(1, _NEAREST_BYTES // row_bytes)
        self._rows = max(rows for rows in range(1, self._all_rows + 1) if self._all_rows % rows == 0 and rows <= most)

    def run(self, jobs: list[_Job]) -> None:
        self._patches.clear()
        if self._sum_jobs:
            self._sum([(x, w) for x, w, _ in jobs], jobs[0][2])
        else:
            for x, w, out in jobs:
                self._sum([(x, w)], out)

    def _sum(self, jobs: list[tuple[Array, Array]], out: Array) -> None:
        count = jobs[0][0].shape[-1]
        blocks = list(product(range(len(jobs)), range(0, count, self._images)))
        accumulators = min(_ACCUMULATORS, len(blocks))

        def work(accumulator: int, thread: int) -> None:
            total = self._sums[accumulator]
            total.fill(0)
            for job, image in blocks[accumulator::accumulators]:
                x, w = jobs[job]
                part = slice(image, image + self._images)
                self._add(x[..., part], w[..., part, :], total, thread)

        self._workers.run(accumulators, work)
        for accumulator in range(1, accumulators):
            np.add(self._sums[0], self._sums[accumulator], out=self._sums[0])
        summed = np.moveaxis(self._sums[0], 2, 0)  # (batch, taps, blocks, COLUMNS)
        np.copyto(out, summed.reshape(out.shape), casting="unsafe")

    def _add(self, x: Array, w: Array, total: Array, thread: int) -> None:
        geometry, rows = self._geometry, self._rows
        images = np.moveaxis(np.moveaxis(x, 0, -1), -2, 0)
        padded = self._patches.load(images, thread)
        ways = padded.strides[1:-1]
        steps = [way * dilation for way, dilation in zip(ways, geometry.rhs_dilation, strict=True)]
        taps = _offsets(geometry.output, [way * stride for way, stride in zip(ways, geometry.strides, strict=True)])
        self._code(
            padded.ctypes.data,
            w.ctypes.data,
            total.ctypes.data,
            taps.ctypes.data,
            self._taps,
            total.shape[1],
            len(padded),
            self._all_rows // rows,
            rows,
            geometry.kernel[-1],
            padded.strides[0],
            steps[0] * rows,
            steps[0],
            steps[-1],
            w.strides[-2],
            w.strides[0] * rows,
            w.strides[0],
            w.strides[-3],
            total.strides[0],
            total.strides[1],
        )


def _offsets(shape: tuple[int, ...], steps: list[int]) -> Array:
    """Of all places of a grid, in bytes."""
    grid = np.zeros((), np.int64)
    for size, step in zip(shape, steps, strict=True):
        grid = np.add.outer(grid, np.arange(size, dtype=np.int64) * step)
    return np.ascontiguousarray(grid).reshape(-1)


KERNELS = {"convolution": Kernel(build)}
