"""What the matrix unit computes at each precision, and what becomes of numbers at the edge of float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import special

from backend.compiler.program import Computation
from backend.tensorcore.sorting import _network
from tests.backend.conftest import Chips, values

ERRORS = {"default": (1e-3, 5e-3), "high": (1e-7, 1e-5), "highest": (0.0, 1e-6)}
"""Relative error (root of the mean square) of products of normal numbers: at least, at most."""


def floats(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def products(computation: Computation) -> list[int]:
    """Passes of the matrix unit in each product."""
    return [i.attributes.get("passes", 1) for i in computation.instructions if i.op in {"dot_general", "convolution"}]


def error(actual: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(((actual - exact) ** 2).mean() / (exact**2).mean()))


@pytest.mark.parametrize("precision", ERRORS)
def test_each_precision_of_a_dot_is_as_exact_as_its_passes(precision: str, chips: Chips) -> None:
    x, y = floats(0, 64, 512), floats(1, 512, 48)
    (result,) = chips(lambda x, y: lax.dot(x, y, precision=precision), x, y)
    least, most = ERRORS[precision]
    assert least <= error(result, x.astype(np.float64) @ y) <= most


@pytest.mark.parametrize("precision", ERRORS)
def test_each_precision_of_a_convolution_is_as_exact_as_its_passes(precision: str, chips: Chips) -> None:
    def convolve(x: Any, y: Any, precision: str) -> Any:
        return lax.conv_general_dilated(
            x, y, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"), precision=precision
        )

    x, y = floats(0, 3, 30, 64), floats(1, 3, 64, 8)
    (result,) = chips(lambda x, y: convolve(x, y, precision), x, y)
    rows = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (0, 0)))
    exact = sum(rows[:, k : k + 30] @ y[k].astype(np.float64) for k in range(3))
    least, most = ERRORS[precision]
    assert least <= error(result, exact) <= most


@pytest.mark.parametrize(
    ("precision", "passes"),
    [
        ("default", 1),
        ("high", 3),
        ("highest", 6),
        (lax.DotAlgorithmPreset.BF16_BF16_F32, 1),
        (lax.DotAlgorithmPreset.BF16_BF16_F32_X3, 3),
        (lax.DotAlgorithmPreset.BF16_BF16_F32_X6, 6),
    ],
)
def test_a_precision_costs_its_passes(precision: Any, passes: int, chips: Chips) -> None:
    program = chips.compile(lambda x, y: lax.dot(x, y, precision=precision), floats(0, 8, 8), floats(1, 8, 8))
    assert sum(products(program.schedule)) == passes


def test_operands_that_are_bfloat16_already_need_fewer_passes(chips: Chips) -> None:
    x, y = floats(0, 8, 8).astype(jnp.bfloat16), floats(1, 8, 8)
    program = chips.compile(lambda x, y: lax.dot(x, y, precision="high"), x, y)
    assert len(products(program.schedule)) == 2
    program = chips.compile(lambda x, y: lax.dot(x, y, precision="highest"), x, x)
    assert len(products(program.schedule)) == 1


@pytest.mark.parametrize("precision", ERRORS)
def test_infinity_and_nan_stay_what_they_are(precision: str, chips: Chips) -> None:
    x, y = floats(0, 4, 8), floats(1, 8, 5)
    x[0, 0], x[1, 1] = np.inf, np.nan
    (result,) = chips(lambda x, y: lax.dot(x, y, precision=precision), x, y)
    assert np.isinf(result[0]).all()
    assert np.isnan(result[1]).all()
    assert np.isfinite(result[2:]).all()


def test_numbers_below_the_smallest_normal_one_are_zero(chips: Chips) -> None:
    tiny = np.full(20, 1e-39, np.float32)
    scaled, compared = chips(lambda x: (x * 1e30, x > 0), tiny)
    np.testing.assert_array_equal(scaled, 0)
    assert not compared.any()
    assert tiny[0] * np.float32(1e30) > 0, "the caller's thread keeps its own arithmetic"


@pytest.mark.parametrize("algorithm", list(lax.RandomAlgorithm))
@pytest.mark.parametrize("shape", [(), (5,), (3, 5), (4, 7)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_random_bits_are_those_of_a_host(algorithm: Any, shape: tuple[int, ...], dtype: Any, chips: Chips) -> None:
    def draw(key: Any) -> Any:
        return lax.rng_bit_generator(key, shape, dtype, algorithm)

    for key in (np.array([7, 0, 99, 0], np.uint32), np.array([1, 2, 2**32 - 1, 2**32 - 1], np.uint32)):
        for want, got in zip(jax.jit(draw)(key), chips(draw, key), strict=True):
            np.testing.assert_array_equal(got, want)


def test_uniform_numbers_differ_from_run_to_run_and_keep_their_bounds(chips: Chips) -> None:
    loaded = chips.load(lambda low, high: lax.rng_uniform(low, high, (1000,)), np.float32(2), np.float32(3))
    first, second = (loaded.run(values([np.float32(2), np.float32(3)])).results[0].array for _ in range(2))
    assert (first != second).any()
    assert first.min() >= 2
    assert first.max() < 3


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 33])
def test_any_comparator_sorts_and_keeps_the_order_of_equals(size: int, chips: Chips) -> None:
    """The smallest remainder of a division by three first: no comparator of JAX's own."""
    scalar = np.zeros((), np.int32)
    region = chips.compile(lambda x, y, *_: x % 3 < y % 3, *[scalar] * 4, keep_unused=True).body
    x = np.random.RandomState(size).randint(0, 9, (2, size)).astype(np.int32)
    order = _network(region, [x, x], {})
    np.testing.assert_array_equal(order, np.argsort(x % 3, kind="stable"))


def test_approximate_top_k_is_exact(chips: Chips) -> None:
    x = floats(0, 3, 300)
    best, places = chips(lambda x: lax.approx_max_k(x, 4), x)
    np.testing.assert_array_equal(best, -np.sort(-x)[:, :4])
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1), best)
    lowest, _ = chips(lambda x: lax.approx_min_k(x, 2, aggregate_to_topk=False), x)
    np.testing.assert_array_equal(lowest.min(1), x.min(1))


BITS = [("int4", "int8"), ("int8", "int4"), ("int4", "uint4"), ("int2", "int8"), ("float32", "int4"), ("int8", "int16")]


@pytest.mark.parametrize(("source", "target"), BITS)
def test_bits_of_narrow_types_are_packed(source: str, target: str, chips: Chips) -> None:
    widths = [jnp.finfo(t).bits if "float" in t else jnp.iinfo(t).bits for t in (source, target)]
    x = np.random.RandomState(0).randint(-2, 2, (6, max(1, widths[1] // widths[0]))).astype(getattr(jnp, source).dtype)

    def cast(x: Any) -> Any:
        return lax.bitcast_convert_type(x, getattr(jnp, target))

    np.testing.assert_array_equal(chips(cast, x)[0], jax.jit(cast)(x))


FUNCTIONS: dict[str, Any] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "exp": np.exp,
    "expm1": np.expm1,
    "lgamma": special.gammaln,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": special.expit,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def test_functions_of_every_bfloat16_are_within_a_unit_of_the_last_place(chips: Chips) -> None:
    smallest = 2.0**-126
    x = np.arange(1 << 16, dtype=np.uint16).view(jnp.bfloat16)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float32).astype(np.float64)
    chosen = np.isfinite(wide) & ((np.abs(wide) > 64 * smallest) | (wide == 0))
    results = chips(lambda x: [getattr(lax, name)(x) for name in FUNCTIONS], x[chosen])
    for (name, function), result in zip(FUNCTIONS.items(), results, strict=True):
        with np.errstate(all="ignore"):
            exact = function(wide[chosen])
            exact = np.where(np.abs(exact) < smallest, 0, exact).astype(np.float32).astype(jnp.bfloat16)
        finite = np.isfinite(exact.astype(np.float32))
        assert np.abs(places(exact) - places(result))[finite].max() <= 1, name
        np.testing.assert_array_equal(result.astype(np.float32)[~finite], exact.astype(np.float32)[~finite], name)


def places(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 numbers counted from zero."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@pytest.mark.parametrize("precision", ["default", "high", "highest"])
def test_a_product_with_integers_is_as_exact_as_its_float_operand(chips: Chips, precision: str) -> None:
    a = np.random.RandomState(0).randn(5, 8).astype(np.float32)
    b = np.arange(24, dtype=np.int32).reshape(8, 3)

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), precision, preferred_element_type=jnp.float32)

    [actual] = chips(product, a, b)
    np.testing.assert_allclose(actual, a @ b, rtol=1e-2 if precision == "default" else 1e-4, atol=1e-1)
