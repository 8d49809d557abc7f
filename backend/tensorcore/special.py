"""How are the special functions computed that the vector unit has no code for? By SciPy."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from backend.tensorcore.vector import Array, Function, plain, ufunc


def _digamma(x: Array, out: Array) -> None:
    pole = x == 0
    special.psi(x, out=out)
    np.copyto(out, out.dtype.type(np.nan), where=pole)


def _lgamma(x: Array, out: Array) -> None:
    infinite = np.isinf(x)
    special.gammaln(x, out=out)
    np.copyto(out, out.dtype.type(np.inf), where=infinite)


def _erf_inv(x: Array, out: Array) -> None:
    """Near zero by the first term of its series: others would be lost where denormals are flushed."""
    near = np.abs(x) < 1e-5
    linear = x * x.dtype.type(math.sqrt(math.pi) / 2)
    special.erfinv(x, out=out)
    np.copyto(out, linear, where=near)


FUNCTIONS: dict[str, Function] = {
    "bessel_i1e": ufunc(special.i1e),
    "digamma": _digamma,
    "erf": ufunc(special.erf),
    "erf_inv": _erf_inv,
    "erfc": ufunc(special.erfc),
    "lgamma": _lgamma,
    "polygamma": plain(special.polygamma),
    "zeta": ufunc(special.zeta),
}
