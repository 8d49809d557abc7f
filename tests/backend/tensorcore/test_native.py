"""Machine code of fusions, beside numpy's blocks and exact values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from backend.tensorcore import fusion, native
from tests.backend.conftest import Chips

SIZE = 20_011
"""Enough elements for machine code, and some left over by vectors."""
RANDOM = np.random.RandomState(0)
FLOATS = np.concatenate([RANDOM.randn(SIZE - 6), [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38]]).astype(np.float32)
OTHERS = np.concatenate([[np.nan, 1.0, -np.inf, -0.0, 0.0], RANDOM.randn(SIZE - 5)]).astype(np.float32)
INTS = RANDOM.randint(-(2**31), 2**31 - 1, SIZE).astype(np.int32)


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a function without machine code."""

    def run(chips: Chips, function: Callable[..., Any], *arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(fusion, "compile_fusion", lambda *_: None)
            return chips(function, *arguments)

    return run


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x + y) * 2 - x / y,
        lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, 0.5), jnp.clip(x, -1, 1)),
        lambda x, y: (jnp.where(x < y, x, -y), x == y, x != y, x >= y, jnp.isfinite(x)),
        lambda x, y: (jnp.sqrt(x), lax.rsqrt(y), jnp.floor(x), jnp.ceil(y), lax.round(x, lax.RoundingMethod(1))),
        lambda n: (n + 3, n * n, n ^ 12345, ~n, -n, n < 7, jnp.maximum(n, 5)),
        lambda n: (n << 3, n >> 40, lax.shift_right_logical(n, jnp.abs(n) % 40), lax.shift_left(n, n % 50)),
        lambda x, y, n: (n.astype(jnp.float32), n.astype(jnp.int8), n.astype(jnp.uint32), (x > y).astype(jnp.float32)),
        lambda x, y: (x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16), x.astype(jnp.bfloat16).astype(jnp.float32)),
        lambda x, y, n: ((x > 0) & (y > 0), (x > 0) | (n > 0), ~(x > 0), (x != 0) ^ (y != 0)),
    ],
)
def test_machine_code_gives_the_bits_that_numpy_gives(chips: Chips, by_numpy: Any, function: Any) -> None:
    arguments = [{"x": FLOATS, "y": OTHERS, "n": INTS}[name] for name in inspect.signature(function).parameters]
    for ours, other in zip(chips(function, *arguments), by_numpy(chips, function, *arguments), strict=True):
        assert ours.dtype == other.dtype
        wide = np.float32 if ours.dtype.name == "bfloat16" else ours.dtype
        np.testing.assert_array_equal(ours.astype(wide), other.astype(wide))


@pytest.mark.parametrize(
    ("function", "exact"),
    [(jnp.exp, np.exp), (jnp.tanh, np.tanh), (jax.nn.sigmoid, lambda x: 1 / (1 + np.exp(-x)))],
)
def test_functions_are_right_within_four_units_of_the_last_place(chips: Chips, function: Any, exact: Any) -> None:
    x = np.concatenate([np.linspace(-86, 88.5, SIZE), [np.inf, -np.inf, np.nan, 0.0, 89.5, -1e30]]).astype(np.float32)
    [actual] = chips(function, x)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64)).astype(np.float32)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    np.testing.assert_array_almost_equal_nulp(actual[finite], expected[finite], 4)


def test_operands_are_read_along_any_strides(chips: Chips, by_numpy: Any) -> None:
    def function(x: Any, row: Any, column: Any) -> Any:
        return x.T * row + column[:, None] - x.T[::-1, ::-1], x.transpose() + row

    arguments = (RANDOM.randn(130, 90), RANDOM.randn(130), RANDOM.randn(90))
    narrow = tuple(a.astype(np.float32) for a in arguments)
    for ours, other in zip(chips(function, *narrow), by_numpy(chips, function, *narrow), strict=True):
        np.testing.assert_array_equal(ours, other)


def test_a_fusion_of_one_kind_is_compiled_once(chips: Chips) -> None:
    chips(lambda x: x * 3 + 1, FLOATS)
    before = native.compiled.cache_info().currsize
    chips(lambda x: x * 5 + 2, RANDOM.randn(3, SIZE).astype(np.float32))
    assert native.compiled.cache_info().currsize == before
