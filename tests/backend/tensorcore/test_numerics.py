"""The chips' arithmetic: what a TPU's matrix unit gives, and the same bits every time."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from backend.tensorcore.threads import Workers
from backend.tensorcore.vector import round_to_bfloat16
from tests.backend.conftest import Chips, values


def test_float32_dot_gives_the_values_that_a_real_tpu_printed(chips: Chips) -> None:
    """https://github.com/jax-ml/jax/issues/9973: a v3's result, to the last bit that was printed."""
    x = np.array([[0.3744, 0.1656], [0.4707, 0.1663]], np.float32)
    y = np.array([[0.3946, 0.1186], [0.1569, 0.3145]], np.float32)
    [z] = chips(jnp.dot, x, y)
    assert [f"{number:.8f}" for number in z.ravel()] == ["0.17405128", "0.09669876", "0.21180916", "0.10805416"]


def test_highest_precision_keeps_float32(chips: Chips) -> None:
    x = np.array([[1.0 + 2**-20, 0.0], [0.0, 1.0]], np.float32)
    [rounded] = chips(jnp.dot, x, x)
    [exact] = chips(lambda a, b: jnp.dot(a, b, precision="highest"), x, x)
    assert rounded[0, 0] == 1.0
    assert exact[0, 0] == x[0, 0] * x[0, 0]


def test_product_with_a_vector_stays_in_float32(chips: Chips) -> None:
    """https://github.com/jax-ml/jax/issues/16349"""
    x = np.random.RandomState(0).randn(4, 64).astype(np.float32)
    [z] = chips(jnp.dot, x, x[0])
    np.testing.assert_allclose(z, x.astype(np.float64) @ x[0].astype(np.float64), rtol=1e-5)


def test_convolution_rounds_its_operands_to_bfloat16(chips: Chips) -> None:
    random = np.random.RandomState(0)
    x, kernel = random.randn(2, 6, 6, 3).astype(np.float32), random.randn(3, 3, 3, 4).astype(np.float32)

    def convolve(x: jax.Array, kernel: jax.Array, precision: str | None = None) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision=precision
        )

    def narrow(array: np.ndarray) -> np.ndarray:
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)

    [actual] = chips(convolve, x, kernel)
    [expected] = chips(lambda a, b: convolve(a, b, "highest"), narrow(x), narrow(kernel))
    np.testing.assert_array_equal(actual, expected)


@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32, allow_nan=True)))
def test_rounding_to_bfloat16_is_to_nearest_even(x: np.ndarray) -> None:
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        round_to_bfloat16(x, out)
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def _training_step(kernel: jax.Array, weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss(kernel: jax.Array, weights: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = jax.lax.reduce_window(jax.nn.relu(y), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (jax.nn.softmax(y.reshape(y.shape[0], -1) @ weights) ** 2).sum()

    return jax.grad(loss, (0, 1))(kernel, weights)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_bits_do_not_depend_on_the_number_of_threads(threads: int, chips: Chips) -> None:
    random = np.random.RandomState(0)
    arguments = (
        random.randn(3, 3, 4, 16).astype(np.float32),
        random.randn(16 * 16 * 16, 40).astype(np.float32),
        random.randn(96, 32, 32, 4).astype(np.float32),
    )
    reference = chips(_training_step, *arguments)
    for want, got in zip(reference, Chips(threads)(_training_step, *arguments), strict=True):
        assert want.tobytes() == got.tobytes()


def test_every_run_gives_the_same_bits_and_leaves_its_arguments_alone(chips: Chips) -> None:
    random = np.random.RandomState(0)
    arguments = (
        random.randn(3, 3, 4, 8).astype(np.float32),
        random.randn(16 * 16 * 8, 10).astype(np.float32),
        random.randn(16, 32, 32, 4).astype(np.float32),
    )
    loaded = chips.load(_training_step, *arguments)
    given_values = values(arguments)
    before = [value.array.tobytes() for value in given_values]
    first = [value.array.tobytes() for value in loaded.run(given_values).results]
    again = [value.array.tobytes() for value in loaded.run(given_values).results]
    assert first == again
    assert before == [value.array.tobytes() for value in given_values]


def test_results_of_two_runs_do_not_share_memory(chips: Chips) -> None:
    loaded = chips.load(lambda x: x + 1, np.zeros(100_000, np.float32))
    [first] = loaded.run(values([np.zeros(100_000, np.float32)])).results
    [second] = loaded.run(values([np.ones(100_000, np.float32)])).results
    assert first.array[0] == 1
    assert second.array[0] == 2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32, jnp.uint8, jnp.bool_])
def test_scalars_of_every_type_go_through_the_vector_unit(dtype: jnp.dtype, chips: Chips) -> None:
    """numpy gives scalars, not arrays, for arrays of no dimension: kernels must not depend on that."""

    def function(x: jax.Array, y: jax.Array) -> list[jax.Array]:
        both = [x == y, jnp.maximum(x, y), jnp.where(x > y, x, y), x.astype(jnp.bfloat16), x.astype(jnp.int8)]
        if jnp.issubdtype(dtype, jnp.integer):
            both += [jax.lax.clz(x), jax.lax.population_count(x), x // y, x % y, x << y, x >> y, x**2]
        if jnp.issubdtype(dtype, jnp.floating):
            both += [jnp.round(x), jnp.sign(x), jnp.floor(x), jax.nn.sigmoid(x), jax.lax.rsqrt(x), x % y, x**y]
        return [*both, jnp.ones((4, 3), dtype).sum()]

    x, y = (np.asarray(number, np.dtype(dtype)) for number in (3, 2))
    for want, got in zip(jax.jit(function)(x, y), chips(function, x, y), strict=True):
        np.testing.assert_allclose(got.astype(np.float32), np.asarray(want).astype(np.float32), rtol=1e-2)


def test_pooling_one_whole_image_leaves_it_alone(chips: Chips) -> None:
    """Its only window is the image itself, whose gradient must not use it as scratch."""

    def loss(x: jax.Array) -> jax.Array:
        return (jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 4, 4, 1), (1, 1, 1, 1), "VALID") ** 2).sum()

    [argument] = given_values = values([np.random.RandomState(0).randn(1, 4, 4, 2).astype(np.float32)])
    before = argument.array.copy()
    chips.load(jax.grad(loss), before).run(given_values)
    np.testing.assert_array_equal(argument.array, before)


def test_no_thread_goes_on_when_a_kernel_has_failed() -> None:
    running: set[int] = set()

    def work(chunk: int, _: int) -> None:
        if chunk == 0:
            raise ValueError("broken kernel")
        running.add(chunk)
        time.sleep(0.05)
        running.discard(chunk)

    for _ in range(5):
        with pytest.raises(ValueError, match="broken kernel"):
            Workers(2).run(4, work)
        assert not running
