"""Every kind of kernel against JAX's CPU backend, over generated shapes and dtypes, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jax import lax

from tests.backend.conftest import Chips, assert_same

few = settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FLOATS = ["float32", "bfloat16", "float16", "complex64"]
REALS = ["float32", "bfloat16", "int32", "uint8", "int4"]
ANY = [*REALS, "float8_e4m3fn", "bool", "complex64", "int16"]
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 1000)


def data(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Values of about 1 that are all different enough; whole numbers for integers."""
    random = np.random.RandomState(seed)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype == "bool":
        return random.rand(*shape) < 0.5
    if "int" in dtype:
        return random.randint(0 if dtype.startswith("u") else -7, 8, shape).astype(kind)
    if dtype == "complex64":
        return np.asarray(random.randn(*shape) + 1j * random.randn(*shape)).astype(kind)
    return np.asarray(random.randn(*shape)).astype(kind)


def check(chips: Chips, function: Callable[..., Any], *arguments: Any, gradient: bool = False) -> None:
    """The same results from the chips as from the CPU; of the gradient, too, if asked."""
    with jax.default_matmul_precision("highest"):
        for expected, actual in zip(
            jax.tree.leaves(jax.jit(function)(*arguments)), chips(function, *arguments), strict=True
        ):
            assert_same(expected, actual)
        if gradient:
            check(chips, jax.grad(lambda *a: (jnp.abs(function(*a)) ** 2).sum().astype(jnp.float32)), *arguments)


UNARY = {
    "float": "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor "
    "is_finite lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt square tan tanh",
    "int": "abs bitwise_not clz neg population_count sign",
    "complex": "abs conj cos cosh exp expm1 imag log log1p neg real rsqrt sign sin sinh sqrt tan tanh square",
}
BINARY = {
    "float": "add atan2 div eq ge gt le lt max min mul ne nextafter pow rem sub",
    "int": "add bitwise_and bitwise_or bitwise_xor div eq ge gt le lt max min mul ne rem shift_left "
    "shift_right_arithmetic shift_right_logical sub",
    "complex": "add div eq mul ne sub",
}


def _kind(dtype: str) -> str:
    return "complex" if "complex" in dtype else "int" if "int" in dtype else "float"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "complex64"])
@few
@given(names=st.data(), shape=shapes, seed=seeds)
def test_elementwise(chips: Chips, dtype: str, names: Any, shape: tuple[int, ...], seed: int) -> None:
    unary = names.draw(st.lists(st.sampled_from(UNARY[_kind(dtype)].split()), min_size=4, max_size=4, unique=True))
    binary = names.draw(st.lists(st.sampled_from(BINARY[_kind(dtype)].split()), min_size=4, max_size=4, unique=True))
    skip = {"abs", "sign", "neg"} if dtype == "uint8" else set()
    x, y = data(seed, shape, dtype), data(seed + 1, shape, dtype)

    def function(x: Any, y: Any) -> list[Any]:
        return [
            *(getattr(lax, name)(x) for name in unary if name not in skip),
            *(getattr(lax, name)(x, y) for name in binary),
        ]

    expected, actual = jax.jit(function)(x, y), chips(function, x, y)
    for name, left, right in zip([*(n for n in unary if n not in skip), *binary], expected, actual, strict=True):
        try:
            assert_same(left, right, tolerance=2e-4)
        except AssertionError as error:
            raise AssertionError(f"{name} of {x!r}, {y!r}: {error}") from None


def test_narrow_integers_wrap(chips: Chips) -> None:
    x, y = data(0, (40,), "int4"), data(1, (40,), "int4")
    check(chips, lambda x, y: [x + y, x * y, x - y, -x, lax.max(x * y, y), (x * y) < y], x, y)


@few
@given(shape=shapes, seed=seeds, source=st.sampled_from(ANY), target=st.sampled_from(ANY))
def test_convert(chips: Chips, shape: tuple[int, ...], seed: int, source: str, target: str) -> None:
    assume(not (source == "complex64" and target != "complex64"))
    check(
        chips,
        lambda x: lax.convert_element_type(x, getattr(jnp, target + "_" * (target == "bool"))),
        data(seed, shape, source),
    )


@few
@given(
    shape=shapes,
    seed=seeds,
    dtype=st.sampled_from(FLOATS),
    name=st.sampled_from(["sum", "max", "min", "prod"]),
    axes=st.data(),
)
def test_reduce(chips: Chips, shape: tuple[int, ...], seed: int, dtype: str, name: str, axes: Any) -> None:
    over = tuple(axes.draw(st.sets(st.integers(0, len(shape) - 1))))
    assume(dtype != "complex64" or name in {"sum", "prod"})
    smooth = name == "sum" and dtype == "float32"
    check(chips, lambda x: getattr(jnp, name)(x, axis=over), data(seed, shape, dtype), gradient=smooth)


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(REALS), largest=st.booleans(), axis=st.integers(0, 3))
def test_variadic_reduce_and_scans(
    chips: Chips, shape: tuple[int, ...], seed: int, dtype: str, largest: bool, axis: int
) -> None:
    along = axis % len(shape)
    x = data(seed, shape, dtype)
    check(chips, lambda x: (lax.argmax if largest else lax.argmin)(x, along, np.int32), x)
    check(chips, lambda x: (lax.cummax if largest else lax.cumsum)(x, along), x.astype(np.float32), gradient=True)


@few
@given(
    batch=st.integers(0, 2),
    free=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    contract=st.integers(0, 2),
    seed=seeds,
    dtypes=st.sampled_from(
        [("float32", "float32"), ("bfloat16", "bfloat16"), ("int8", "int8"), ("complex64", "complex64")]
    ),
)
def test_dot_general(
    chips: Chips, batch: int, free: tuple[int, int], contract: int, seed: int, dtypes: tuple[str, str]
) -> None:
    random = np.random.RandomState(seed)
    sizes = random.randint(1, 5, batch + contract)
    arrays, numbers = [], []
    for dtype, count in zip(dtypes, free, strict=True):
        axes = random.permutation(batch + contract + count)
        shape = [0] * len(axes)
        for position, axis in enumerate(axes):
            shape[axis] = sizes[position] if position < batch + contract else random.randint(1, 6)
        arrays.append(data(seed + len(arrays), tuple(shape), dtype))
        numbers.append((axes[batch : batch + contract].tolist(), axes[:batch].tolist()))
    dimensions = ((numbers[0][0], numbers[1][0]), (numbers[0][1], numbers[1][1]))
    wide = {"int8": jnp.int32, "bfloat16": jnp.float32}.get(dtypes[0])
    check(
        chips,
        lambda x, y: lax.dot_general(x, y, dimensions, preferred_element_type=wide),
        *arrays,
        gradient=dtypes[0] == "float32",
    )


@few
@given(
    spatial=st.integers(1, 2), seed=seeds, groups=st.sampled_from([(1, 1), (2, 1), (1, 2)]),
    layout=st.sampled_from(["last", "first"]), dilated=st.booleans(), stride=st.integers(1, 3), reverse=st.booleans(),
    outputs=st.sampled_from([4, 16, 32]),
)  # fmt: skip
def test_convolution(
    chips: Chips,
    spatial: int,
    seed: int,
    groups: tuple[int, int],
    layout: str,
    dilated: bool,
    stride: int,
    reverse: bool,
    outputs: int,
) -> None:
    features, batches = groups
    letters = "HW"[:spatial]
    names = ("N" + letters + "C", letters + "IO", "N" + letters + "C")
    if layout == "first":
        names = ("NC" + letters, "OI" + letters, "NC" + letters)
    sizes = {"N": 2 * batches, "C": 4, "I": 4 // features, "O": outputs, "H": 7, "W": 9}
    kernel = {**sizes, "H": 3, "W": 2}
    x = data(seed, tuple(sizes[letter] for letter in names[0]))
    w = data(seed + 1, tuple(kernel[letter] for letter in names[1]))
    dilation = (2,) * spatial if dilated else (1,) * spatial
    options = {
        "window_strides": (stride,) * spatial,
        "padding": [(1, 2)] * spatial,
        "rhs_dilation": dilation,
        "lhs_dilation": dilation if seed % 2 else None,
        "dimension_numbers": names,
        "feature_group_count": features,
        "batch_group_count": batches,
    }
    turn = tuple(names[1].index(letter) for letter in letters) if reverse else ()
    check(chips, lambda x, w: lax.conv_general_dilated(x, lax.rev(w, turn), **options), x, w, gradient=True)


@few
@given(
    seed=seeds, stride=st.integers(1, 3), dilation=st.integers(1, 2), base=st.integers(1, 2), window=st.integers(1, 3),
    name=st.sampled_from(["add", "max", "min"]),
)  # fmt: skip
def test_reduce_window(chips: Chips, seed: int, stride: int, dilation: int, base: int, window: int, name: str) -> None:
    start = {"add": 0.0, "max": -jnp.inf, "min": jnp.inf}[name]
    function = getattr(lax, name)

    def pool(x: Any) -> Any:
        return lax.reduce_window(
            x, start, function, (1, window, 2), (1, stride, 1), [(0, 0), (1, 2), (0, 1)], (1, base, 1), (1, dilation, 1)
        )

    check(chips, pool, data(seed, (2, 7, 5)), gradient=base == 1 and dilation == 1)


@few
@given(
    seed=seeds,
    mode=st.sampled_from(["fill", "clip", "promise_in_bounds"]),
    axes=st.data(),
    dtype=st.sampled_from(REALS),
)
def test_gather_and_scatter(chips: Chips, seed: int, mode: str, axes: Any, dtype: str) -> None:
    random = np.random.RandomState(seed)
    shape = tuple(random.randint(2, 6, 3))
    indexed = sorted(axes.draw(st.sets(st.integers(0, 2), min_size=1)))
    index_shape = (3, 2)
    beyond = 0 if mode == "promise_in_bounds" else 2
    indices = [random.randint(-beyond, shape[a] + beyond, index_shape).astype(np.int32) for a in indexed]
    x = data(seed, shape, dtype)
    key = tuple(indices[indexed.index(a)] if a in indexed else slice(None) for a in range(3))
    picked = np.empty(shape)[tuple(np.zeros(index_shape, int) if a in indexed else slice(None) for a in range(3))].shape
    updates = data(seed + 1, picked, dtype)
    check(chips, lambda x, *i: x.at[key].get(mode=mode, wrap_negative_indices=False), x)
    check(chips, lambda x, u: x.at[key].add(u, mode=mode, wrap_negative_indices=False), x, updates)
    if dtype == "float32":
        check(chips, lambda x: x.at[key].get(mode=mode, wrap_negative_indices=False), x, gradient=True)
        check(chips, lambda x, u: x.at[key].max(u, mode=mode, wrap_negative_indices=False), x, updates)


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(REALS), keys=st.integers(1, 2), axis=st.integers(0, 3))
def test_sort(chips: Chips, shape: tuple[int, ...], seed: int, dtype: str, keys: int, axis: int) -> None:
    arrays = data(seed, shape, dtype), data(seed + 1, shape), np.arange(math.prod(shape)).reshape(shape)
    check(chips, lambda *a: lax.sort(a, dimension=axis % len(shape), num_keys=keys), *arrays)


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(ANY), low=st.integers(-1, 2), inside=st.integers(0, 2))
def test_movement(chips: Chips, shape: tuple[int, ...], seed: int, dtype: str, low: int, inside: int) -> None:
    x = data(seed, shape, dtype)
    order = np.random.RandomState(seed).permutation(len(shape))
    check(
        chips,
        lambda x: (
            lax.pad(x, jnp.zeros((), x.dtype), [(low, 1, inside)] * x.ndim),
            lax.transpose(x, order),
            lax.rev(x, (0,)),
            lax.concatenate([x, x], len(shape) - 1),
            lax.slice(x, (0,) * x.ndim, x.shape, (2,) * x.ndim),
            lax.dynamic_slice(x, (shape[0] + 3,) * x.ndim, (1,) * x.ndim),
            lax.dynamic_update_slice(x, x[:1], (-2,) * x.ndim),
            x.reshape(-1),
        ),
        x,
    )


@settings(few, max_examples=3)
@given(seed=seeds, size=st.integers(1, 9), batch=st.integers(1, 3))
def test_linear_algebra(chips: Chips, seed: int, size: int, batch: int) -> None:
    a = data(seed, (batch, size, size))
    positive = a @ a.transpose(0, 2, 1) + 3 * np.eye(size, dtype=np.float32)

    def function(positive: Any, a: Any) -> list[Any]:
        return [
            jnp.linalg.cholesky(positive),
            jnp.linalg.solve(positive, a),
            jnp.linalg.eigvalsh(positive),
            jnp.abs(jnp.linalg.qr(a)[1]),
            jnp.linalg.svd(a, compute_uv=False),
            jnp.abs(jnp.fft.fft2(a)),
        ]

    check(chips, function, positive, a)


def test_gradients_of_linear_algebra(chips: Chips) -> None:
    a = data(0, (2, 5, 5))
    positive = a @ a.transpose(0, 2, 1) + 3 * np.eye(5, dtype=np.float32)
    check(chips, lambda p, a: jnp.linalg.solve(jnp.linalg.cholesky(p), a), positive, a, gradient=True)


RAGGED = {
    "rows": lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0]),
    "contracting": lax.RaggedDotDimensionNumbers((([0], [0]), ([], [])), [0], []),
    "batched rows": lax.RaggedDotDimensionNumbers((([2], [2]), ([0], [0])), [1], [1]),
}


@pytest.mark.parametrize("kind", RAGGED)
@few
@given(seed=seeds, sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_ragged_dot(chips: Chips, kind: str, seed: int, sizes: list[int]) -> None:
    rows, groups = 12, len(sizes)
    shapes = {
        "rows": ((rows, 3), (groups, 3, 4)),
        "contracting": ((rows, 3), (rows, 4)),
        "batched rows": ((2, rows, 3), (2, groups, 3, 4)),
    }[kind]
    x, y = (data(seed + number, shape) for number, shape in enumerate(shapes))
    group_sizes = np.array(sizes, np.int32)
    check(chips, lambda x, y: lax.ragged_dot_general(x, y, group_sizes, RAGGED[kind]), x, y, gradient=kind == "rows")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
def test_upper_half_of_products(chips: Chips, dtype: str) -> None:
    limits = np.iinfo(dtype)
    random = np.random.RandomState(0)
    x, y = (random.randint(limits.min, limits.max, 100, dtype=dtype) for _ in range(2))
    check(chips, lax.mulhi, x, y)
