"""What does the vector unit compute for each elementwise operation? A table of functions that write into ``out``.

Every function has the form ``f(*operands, out)``: operands broadcast against ``out``; ``out`` may be an operand.
bfloat16 and float16 are computed in float32; integers wrap; special values are XLA's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., None]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_LARGEST = np.finfo(np.float32).max


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which an element type is computed: float32 for the narrow floats, int8 for narrower ints."""
    if dtype.isbuiltin == 1 and dtype != np.float16:
        return dtype
    if dtype.name.startswith(("bfloat", "float")):
        return np.dtype(np.float32)
    return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)


def ufunc(function: Callable[..., Any]) -> Function:
    def run(*operands: Array) -> None:
        function(*operands[:-1], out=operands[-1])

    return run


def plain(function: Callable[..., Any]) -> Function:
    """For functions with no ``out``: computed, then copied."""

    def run(*operands: Array) -> None:
        np.copyto(operands[-1], function(*operands[:-1]), casting="unsafe")

    return run


def _by_kind(**functions: Function) -> Function:
    """Chosen by the kind of the first operand: ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` float, ``c`` complex."""

    def run(*operands: Array) -> None:
        functions.get(operands[0].dtype.kind, functions["f"])(*operands)

    return run


def _logistic(x: Array, out: Array) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, out.dtype.type(1), out=out)
    np.reciprocal(out, out=out)


def _rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out=out)
    np.divide(out.dtype.type(1), out, out=out)


def _divide_signed(a: Array, b: Array, out: Array) -> None:
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe
    quotient += (a % safe != 0) & ((a < 0) != (safe < 0))  # toward zero
    np.copyto(out, np.where(b == 0, b.dtype.type(-1), quotient))


def _divide_unsigned(a: Array, b: Array, out: Array) -> None:
    quotient = a // np.where(b == 0, b.dtype.type(1), b)
    np.copyto(out, np.where(b == 0, np.iinfo(b.dtype).max, quotient), casting="unsafe")


def _remainder_int(a: Array, b: Array, out: Array) -> None:
    result = np.fmod(a, np.where(b == 0, b.dtype.type(1), b))
    np.copyto(out, np.where(b == 0, a, result))


def _power_int(a: Array, b: Array, out: Array) -> None:
    positive = np.power(a, np.maximum(b, b.dtype.type(0)))
    if b.dtype.kind == "i":
        odd = (b & 1).astype(bool)
        negative = np.where(a == 1, 1, np.where(a == a.dtype.type(-1), np.where(odd, -1, 1), 0))
        positive = np.where(b < 0, negative, positive)
    np.copyto(out, positive, casting="unsafe")


def _multiply_high(a: Array, b: Array, out: Array) -> None:
    """The upper half of the product's bits."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}8")
        np.copyto(out, (a.astype(wide) * b.astype(wide)) >> wide.type(bits), casting="unsafe")
        return
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    cross = (x & low) * (y >> half) + (((x & low) * (y & low)) >> half)
    other = (x >> half) * (y & low) + (cross & low)
    high = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, 0).astype(np.uint64) - np.where(b < 0, x, 0).astype(np.uint64)
    np.copyto(out.view(np.uint64), high)


def _shift(function: Callable[..., Any], arithmetic: bool = False) -> Function:
    def run(a: Array, b: Array, out: Array) -> None:
        bits = a.dtype.itemsize * 8
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        amount = b.view(unsigned)
        if arithmetic:
            signed = np.dtype(f"i{a.dtype.itemsize}")
            np.right_shift(a.view(signed), np.minimum(amount, bits - 1).astype(signed), out=out.view(signed))
            return
        if b.size and not any(b.strides):
            if int(amount.flat[0]) < bits:
                function(a.view(unsigned), amount, out=out.view(unsigned))
            else:
                out[...] = 0
            return
        shifted = function(a.view(unsigned), np.minimum(amount, bits - 1).astype(unsigned))
        np.copyto(out.view(unsigned), np.where(amount >= bits, unsigned.type(0), shifted))

    return run


def _not(x: Array, out: Array) -> None:
    (np.logical_not if x.dtype.kind == "b" else np.invert)(x, out=out)


def _negate(x: Array, out: Array) -> None:
    np.subtract(x.dtype.type(0), x, out=out) if x.dtype.kind == "u" else np.negative(x, out=out)


def _sign(x: Array, out: Array) -> None:
    if x.dtype.kind == "c":
        size = np.abs(x)
        np.copyto(out, np.where(size == 0, x, x / np.where(size == 0, 1, size)), casting="unsafe")
    elif x.dtype.kind == "f":
        np.copyto(out, np.where(x == 0, x, np.sign(x)))
    else:
        np.sign(x, out=out)


def _round_away(x: Array, out: Array) -> None:
    whole = np.trunc(x)
    np.copyto(out, whole + np.copysign(np.abs(x - whole) >= 0.5, x), casting="unsafe")


def _select(predicate: Array, on_true: Array, on_false: Array, out: Array) -> None:
    """By bit masks: numpy's masked copies are ten times slower on masks that don't repeat."""
    if predicate.ndim == 0:
        np.copyto(out, on_true if predicate else on_false)
        return
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        np.copyto(out, np.where(predicate, on_true, on_false))
        return
    bits = np.dtype(f"i{out.dtype.itemsize}")
    mask = np.negative(predicate.view(np.int8)).astype(bits)
    chosen, other, target = on_true.view(bits), on_false.view(bits), out.view(bits)
    if other.ndim == 0 and not other:
        np.bitwise_and(chosen, mask, out=target)
        return
    np.bitwise_and(np.bitwise_xor(chosen, other), mask, out=target)
    np.bitwise_xor(target, other, out=target)


def _clamp(low: Array, x: Array, high: Array, out: Array) -> None:
    np.maximum(x, low, out=out)
    np.minimum(out, high, out=out)


def _leading_zeros(x: Array, out: Array) -> None:
    unsigned = x.view(f"u{x.dtype.itemsize}").copy()
    bits = x.dtype.itemsize * 8
    shift = 1
    while shift < bits:
        unsigned |= unsigned >> shift
        shift *= 2
    np.copyto(out, bits - np.bitwise_count(unsigned).astype(np.int64), casting="unsafe")


def _complex(real: Array, imaginary: Array, out: Array) -> None:
    out.real = real
    out.imag = imaginary


def _complex_log1p(x: Array, out: Array) -> None:
    np.log(1 + x, out=out)


def next_after(dtype: np.dtype[Any]) -> Function:
    """``next_after`` among the numbers of a type that is computed in a wider one."""

    def run(x: Array, toward: Array, out: Array) -> None:
        np.copyto(out, np.nextafter(x.astype(dtype), toward.astype(dtype)), casting="unsafe")

    return run


VECTOR_OPS: dict[str, Function] = {
    "abs": ufunc(np.absolute),
    "acos": ufunc(np.arccos),
    "acosh": ufunc(np.arccosh),
    "add": _by_kind(b=ufunc(np.logical_or), f=ufunc(np.add)),
    "and": ufunc(np.bitwise_and),
    "asin": ufunc(np.arcsin),
    "asinh": ufunc(np.arcsinh),
    "atan": ufunc(np.arctan),
    "atan2": ufunc(np.arctan2),
    "atanh": ufunc(np.arctanh),
    "cbrt": ufunc(np.cbrt),
    "ceil": ufunc(np.ceil),
    "clamp": _clamp,
    "complex": _complex,
    "conj": ufunc(np.conjugate),
    "cosh": ufunc(np.cosh),
    "cosine": ufunc(np.cos),
    "count_leading_zeros": _leading_zeros,
    "divide": _by_kind(i=_divide_signed, u=_divide_unsigned, f=ufunc(np.divide)),
    "exponential": ufunc(np.exp),
    "exponential_minus_one": ufunc(np.expm1),
    "floor": ufunc(np.floor),
    "imag": plain(np.imag),
    "is_finite": ufunc(np.isfinite),
    "is_inf": ufunc(np.isinf),
    "is_neg_inf": ufunc(np.isneginf),
    "is_pos_inf": ufunc(np.isposinf),
    "log": ufunc(np.log),
    "log_plus_one": _by_kind(c=_complex_log1p, f=ufunc(np.log1p)),
    "logistic": _logistic,
    "maximum": _by_kind(b=ufunc(np.logical_or), f=ufunc(np.maximum)),
    "minimum": _by_kind(b=ufunc(np.logical_and), f=ufunc(np.minimum)),
    "mulhi": _multiply_high,
    "multiply": _by_kind(b=ufunc(np.logical_and), f=ufunc(np.multiply)),
    "negate": _negate,
    "next_after": ufunc(np.nextafter),
    "not": _not,
    "or": ufunc(np.bitwise_or),
    "popcnt": plain(lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}"))),
    "power": _by_kind(i=_power_int, u=_power_int, f=ufunc(np.power)),
    "real": plain(np.real),
    "remainder": _by_kind(i=_remainder_int, u=_remainder_int, f=ufunc(np.fmod)),
    "round_nearest_afz": _round_away,
    "round_nearest_even": ufunc(np.rint),
    "rsqrt": _rsqrt,
    "select": _select,
    "shift_left": _shift(np.left_shift),
    "shift_right_arithmetic": _shift(np.right_shift, arithmetic=True),
    "shift_right_logical": _shift(np.right_shift),
    "sign": _sign,
    "sine": ufunc(np.sin),
    "sinh": ufunc(np.sinh),
    "sqrt": ufunc(np.sqrt),
    "square": ufunc(np.square),
    "subtract": _by_kind(b=ufunc(np.logical_xor), f=ufunc(np.subtract)),
    "tan": ufunc(np.tan),
    "tanh": ufunc(np.tanh),
    "xor": ufunc(np.bitwise_xor),
}

SPECIAL_OPS = frozenset({"bessel_i1e", "digamma", "erf", "erf_inv", "erfc", "lgamma", "polygamma", "zeta"})


def vector_function(op: str) -> Function:
    """The function of an operation of VECTOR_OPS or SPECIAL_OPS."""
    if op not in SPECIAL_OPS:
        return VECTOR_OPS[op]
    from backend.tensorcore.special import FUNCTIONS  # SciPy is imported when first needed

    return FUNCTIONS[op]


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def comparison(direction: str, total_order: bool) -> Function:
    """``compare`` in one direction; in IEEE total order -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    function = _COMPARISONS[direction]
    if not total_order:
        return ufunc(function)

    def run(a: Array, b: Array, out: Array) -> None:
        function(_order_key(a), _order_key(b), out=out)

    return run


def _order_key(x: Array) -> Array:
    """Signed integers in the total order of floats."""
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def conversion(source: np.dtype[Any], target: np.dtype[Any]) -> Function:
    """``convert``: floats go to integers toward zero, saturating, NaN to 0; to bool by ``!= 0``."""
    if target.kind == "b":
        return lambda x, out: np.not_equal(x, 0, out=out)
    is_float = source.kind == "f"
    if is_float and target.kind in "iu":
        return lambda x, out: np.copyto(out, _saturate(x, target), casting="unsafe")
    if source.kind == "c" and target.kind != "c":
        return lambda x, out: np.copyto(out, x.real, casting="unsafe")
    return lambda x, out: np.copyto(out, x, casting="unsafe")


def _saturate(x: Array, target: np.dtype[Any]) -> Array:
    limits = np.iinfo(target)
    whole = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
    inside = np.clip(whole, float(limits.min), np.nextafter(float(limits.max) + 1.0, 0.0))
    result = inside.astype(target)
    saturated: Array = np.where(whole >= float(limits.max), target.type(limits.max), result)
    return saturated


_SHIFT, _ONE, _HALF, _KEPT = (np.uint32(number) for number in (16, 1, 0x7FFF, 0xFFFF0000))


def round_to_bfloat16(x: Array, out: Array) -> None:
    """float32 ``x`` rounded to the nearest bfloat16, ties to even, kept in float32. ``out`` may be ``x``."""
    special = not np.maximum.reduce(x, axis=None, initial=0) <= _LARGEST
    nan = np.isnan(x) if special else None
    bits, rounded = x.view(np.uint32), out.view(np.uint32)
    carry = np.empty(x.shape, np.uint32)
    np.right_shift(bits, _SHIFT, out=carry)
    np.bitwise_and(carry, _ONE, out=carry)
    np.add(carry, _HALF, out=carry)
    np.add(bits, carry, out=rounded)
    np.bitwise_and(rounded, _KEPT, out=rounded)
    if nan is not None:
        np.copyto(out, np.float32(np.nan), where=nan)


def reduce_precision(exponent_bits: int, mantissa_bits: int) -> Function:
    """``reduce_precision`` of float32 to a format of so many exponent and mantissa bits."""

    def run(x: Array, out: Array) -> None:
        if mantissa_bits < 23:
            drop = 23 - mantissa_bits
            bits = x.view(np.uint32)
            odd = (bits >> drop) & np.uint32(1)
            rounded = (bits + odd + np.uint32((1 << (drop - 1)) - 1)) & np.uint32((0xFFFFFFFF << drop) & 0xFFFFFFFF)
            result = np.where(np.isnan(x), x, rounded.view(np.float32))
        else:
            result = x.copy()
        if exponent_bits < 8:
            bias = (1 << (exponent_bits - 1)) - 1
            largest = np.float32(2.0**bias * (2 - 2.0**-mantissa_bits))
            smallest = np.float32(2.0 ** (1 - bias))
            result = np.where(np.abs(result) > largest, np.copysign(np.float32(np.inf), result), result)
            result = np.where(np.abs(result) < smallest, np.copysign(np.float32(0), result), result)
            result = np.where(np.isnan(x), x, result)
        np.copyto(out, result)

    return run
