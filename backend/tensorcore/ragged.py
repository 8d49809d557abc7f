"""What does a product do whose rows belong to groups, each with a matrix of its own? ``ragged_dot``, as experts use it.

The rows of a group lie together, so each group is one plain product of a slice. Group sizes are known when it runs;
rows beyond their sum belong to no group and give zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.mxu import operand_dtype


def build(site: Site) -> Step:
    """The step of a ``ragged_dot`` whose ragged dimension is a row or a contracting dimension of the left operand."""
    readers = [site.reader(position) for position in range(3)]
    target = site.instruction.results[0]
    dtype = operand_dtype(site.operand_type(0).dtype, site.operand_type(1).dtype)
    a = site.attributes
    run = _summed if a["ragged"] in a["lhs_contract"] else _stacked

    def step(env: Environment) -> None:
        lhs, rhs, sizes = (read(env) for read in readers)
        out = env[target]
        if not site.lead:
            run(a, lhs.astype(dtype, copy=False), rhs.astype(dtype, copy=False), sizes, out)
            return
        for core in range(site.num_cores):
            run(a, lhs[core].astype(dtype, copy=False), rhs[core].astype(dtype, copy=False), sizes[core], out[core])

    return step


def _stacked(a: dict[str, Any], lhs: Array, rhs: Array, sizes: Array, out: Array) -> None:
    """A ragged row dimension: (rows, k) by (groups, k, n) gives (rows, n)."""
    used = [*a["lhs_batch"], *a["lhs_contract"]]
    free = [axis for axis in range(lhs.ndim) if axis not in used]
    before = free[: free.index(a["ragged"])]
    rhs_free = [d for d in range(rhs.ndim) if d not in (*a["rhs_batch"], *a["rhs_contract"], *a["rhs_group"])]
    left = lhs.transpose([*a["lhs_batch"], *free, *a["lhs_contract"]])
    right = rhs.transpose([*a["rhs_group"], *a["rhs_batch"], *a["rhs_contract"], *rhs_free])
    batch, contracted = len(a["lhs_batch"]), len(a["lhs_contract"])
    prefix = left.shape[: batch + len(before)]
    out.fill(0)
    for index in np.ndindex(*prefix):
        for group, start, stop in _groups(sizes, index):
            rows = left[index][start:stop]
            out[index][start:stop] = np.tensordot(rows, right[group][index[:batch]], contracted)


def _summed(a: dict[str, Any], lhs: Array, rhs: Array, sizes: Array, out: Array) -> None:
    """A ragged contracting dimension: (m, k) by (k, n) gives (groups, m, n), each summed over its own part of k."""
    place = a["lhs_contract"].index(a["ragged"])
    batch, contracted = len(a["lhs_batch"]), len(a["lhs_contract"]) - place

    def arranged(array: Array, side: str) -> Array:
        used = [*a[f"{side}_batch"], *a[f"{side}_contract"]]
        return array.transpose([*used, *(axis for axis in range(array.ndim) if axis not in used)])

    left, right = arranged(lhs, "lhs"), arranged(rhs, "rhs")
    axes = list(range(contracted))
    out.fill(0)
    for index in np.ndindex(*left.shape[: batch + place]):
        for group, start, stop in _groups(sizes, index):
            part = np.tensordot(left[index][start:stop], right[index][start:stop], (axes, axes))
            out[group][index[:batch]] += part.astype(out.dtype, copy=False)


def _groups(sizes: Array, index: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Number, start and end of each group; ``sizes`` are the same for all indices if they have one dimension."""
    own = sizes if sizes.ndim == 1 else sizes[index]
    ends = np.cumsum(own, dtype=np.int64).tolist()
    return [(group, end - size, end) for group, (end, size) in enumerate(zip(ends, own.tolist(), strict=True))]


KERNELS = {"ragged_dot": Kernel(build)}
