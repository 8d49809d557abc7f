"""How are matrices factored and transformed? On the host, by LAPACK and pocketfft: chips have no unit for it.

All matrices of a batch, and of all cores, are worked on one after the other or as one batched call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step


def _matrices(array: Array) -> Array:
    """A batch of matrices as (count, rows, columns)."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _vectors(array: Array) -> Array:
    """A batch of vectors as (count, size)."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _lapack(linalg: Any, name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    (function,) = linalg.get_lapack_funcs((name,), dtype=dtype)
    return function  # type: ignore[no-any-return]


def _build(run: Callable[[Any, Site, list[Array], list[Array]], None], module: str) -> Kernel:
    """A kernel from a function of a module that is imported when first needed, operands and results.

    Operands and results have all the result's core axis.
    """

    def build(site: Site) -> Step:
        library = import_module(module)
        readers = [site.reader(i) for i in range(len(site.instruction.operands))]
        results = site.instruction.results

        def step(env: Environment) -> None:
            run(library, site, [np.ascontiguousarray(read(env)) for read in readers], [env[value] for value in results])

        return step

    return Kernel(build)


def _cholesky(linalg: Any, site: Site, operands: list[Array], results: list[Array]) -> None:
    """A matrix that isn't positive definite gives NaN."""
    lower = bool(site.attributes["lower"])
    factor = _lapack(linalg, "potrf", operands[0].dtype)
    for matrix, out in zip(_matrices(operands[0]), _matrices(results[0]), strict=True):
        triangle, failed = factor(matrix, lower=lower, clean=True)
        out[...] = np.nan if failed else triangle


def _triangular_solve(linalg: Any, site: Site, operands: list[Array], results: list[Array]) -> None:
    a = site.attributes
    for matrix, rhs, out in zip(*(_matrices(array) for array in (*operands, results[0])), strict=True):
        lower, triangle = a["lower"], matrix
        if a["transpose"] == "ADJOINT":
            triangle = triangle.conj()
        transposed = a["transpose"] in {"TRANSPOSE", "ADJOINT"}
        if not a["left_side"]:
            rhs, transposed = rhs.T, not transposed  # noqa: PLW2901
        solve = linalg.get_blas_funcs("trsm", dtype=matrix.dtype)  # unlike LAPACK's trtrs it takes singular matrices
        out_or_transpose = solve(1.0, triangle, rhs, lower=lower, trans_a=int(transposed), diag=a["unit_diagonal"])
        out[...] = out_or_transpose if a["left_side"] else out_or_transpose.T


def _qr(linalg: Any, _: Site, operands: list[Array], results: list[Array]) -> None:
    """Householder form: R above the diagonal, reflectors below, and their scales."""
    factor = _lapack(linalg, "geqrf", operands[0].dtype)
    scales = _vectors(results[1])
    for matrix, out, scale in zip(_matrices(operands[0]), _matrices(results[0]), scales, strict=True):
        reflectors, tau, _, _ = factor(matrix)
        out[...], scale[...] = reflectors, tau


def _householder_product(linalg: Any, _: Site, operands: list[Array], results: list[Array]) -> None:
    name = "ungqr" if operands[0].dtype.kind == "c" else "orgqr"
    product = _lapack(linalg, name, operands[0].dtype)
    scales = _vectors(operands[1])
    for reflectors, scale, out in zip(_matrices(operands[0]), scales, _matrices(results[0]), strict=True):
        out[...] = product(reflectors, scale)[0]


def _lu(linalg: Any, _: Site, operands: list[Array], results: list[Array]) -> None:
    """L and U in one matrix, the row exchanges, and the permutation that they make."""
    factor = _lapack(linalg, "getrf", operands[0].dtype)
    rows = operands[0].shape[-2]
    pivots = _vectors(results[1])
    permutations = _vectors(results[2])
    for matrix, out, pivot, permutation in zip(
        _matrices(operands[0]), _matrices(results[0]), pivots, permutations, strict=True
    ):
        out[...], pivot[...], _ = factor(matrix)
        order = np.arange(rows)
        for row, other in enumerate(pivot):
            order[[row, other]] = order[[other, row]]
        permutation[...] = order


def _eigh(linalg: Any, _: Site, operands: list[Array], results: list[Array]) -> None:
    """Eigenvectors in columns, eigenvalues in ascending order, of symmetric matrices."""
    values = _vectors(results[1])
    for matrix, vectors, value in zip(_matrices(operands[0]), _matrices(results[0]), values, strict=True):
        if np.isfinite(matrix).all():
            value[...], vectors[...] = linalg.eigh(matrix)
        else:
            value[...] = vectors[...] = np.nan


_FFTS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}


def _fft(pocketfft: Any, site: Site, operands: list[Array], results: list[Array]) -> None:
    lengths: list[int] = site.attributes["lengths"]
    axes = list(range(operands[0].ndim - len(lengths), operands[0].ndim))
    transform = getattr(pocketfft, _FFTS[site.attributes["kind"]])
    if math.prod(results[0].shape):
        results[0][...] = transform(operands[0], s=lengths, axes=axes)


KERNELS = {
    "cholesky": _build(_cholesky, "scipy.linalg"),
    "triangular_solve": _build(_triangular_solve, "scipy.linalg"),
    "qr": _build(_qr, "scipy.linalg"),
    "householder_product": _build(_householder_product, "scipy.linalg"),
    "lu": _build(_lu, "scipy.linalg"),
    "eigh": _build(_eigh, "numpy.linalg"),
    "fft": _build(_fft, "scipy.fft"),
}
