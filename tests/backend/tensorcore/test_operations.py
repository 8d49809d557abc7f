"""Every kernel against JAX's CPU backend, at full precision: one program a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.backend.conftest import Chips, assert_same

_random = np.random.RandomState(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return _random.randn(*shape).astype(np.float32)


def ints(limit: int, *shape: int) -> np.ndarray[Any, Any]:
    return _random.randint(0, limit, shape).astype(np.int32)


NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
KEY = np.array([0, 7], np.uint32)


def conv(
    strides: tuple[int, ...] = (1, 1),
    padding: Any = "SAME",
    lhs_dilation: tuple[int, ...] = (1, 1),
    rhs_dilation: tuple[int, ...] = (1, 1),
    layout: tuple[str, str, str] = NHWC,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Callable[..., Any]:
    def run(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, strides, padding, lhs_dilation, rhs_dilation, layout, feature_groups, batch_groups
        )

    return run


def max_pool(window: int, stride: int, padding: str) -> Callable[[Any], Any]:
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), padding)


def mean_pool(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def squared(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: (function(*arguments) ** 2).sum()


def lstm(x: Any, w_in: Any, w_hidden: Any) -> Any:
    def cell(carry: Any, row: Any) -> Any:
        hidden, state = carry
        i, f, o, u = jnp.split(row @ w_in + hidden @ w_hidden, 4, -1)
        state = jax.nn.sigmoid(f) * state + jax.nn.sigmoid(i) * jnp.tanh(u)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(state)
        return (hidden, state), hidden

    zeros = jnp.zeros((x.shape[1], w_hidden.shape[0]))
    return lax.scan(cell, (zeros, zeros), x)[1]


def key() -> Any:
    return jax.random.wrap_key_data(KEY)


ELEMENTWISE: dict[str, tuple[Any, ...]] = {
    "scalar": (lambda x: x + 1, np.float32(2)),
    "chain": (lambda x, y: jnp.tanh(x + y * 2) - x, floats(3, 4), floats(3, 4)),
    "bias_and_relu_in_blocks": (lambda x, b: jax.nn.relu(x + b), floats(64, 300, 7), floats(7)),
    "rows_and_columns_in_blocks": (lambda x, r, c: x * r + c, floats(700, 90), floats(700, 1), floats(90)),
    "middle_axis_broadcast": (lambda x, m: x * m[:, None, :], floats(40, 50, 60), floats(40, 60)),
    "gelu": (jax.nn.gelu, floats(4, 5)),
    "gelu_exact": (lambda x: jax.nn.gelu(x, approximate=False), floats(4, 5)),
    "sigmoid": (jax.nn.sigmoid, floats(4, 5) * 30),
    "where": (lambda x: jnp.where(x > 0, x, -1), floats(80, 900)),
    "where_two_arrays": (lambda x, y: jnp.where(x > y, x, y * 2), floats(80, 900), floats(80, 900)),
    "where_bool": (lambda x, y: jnp.where(x > 0, x > y, y > 0), floats(80, 900), floats(80, 900)),
    "clip_in_blocks": (lambda x: jnp.clip(x, -0.5, 0.5), floats(300, 900)),
    "integer_division": (
        lambda a, b: (a // b, a % b, lax.div(a, b), lax.rem(a, b)),
        ints(50, 200) - 25,
        ints(9, 200) - 4,
    ),
    "unsigned_division": (lambda a, b: (a // b, a % b), ints(50, 20).astype(np.uint32), ints(3, 20).astype(np.uint32)),
    "shifts": (lambda a, b: (a << 3, a >> 2, lax.shift_right_logical(a, b)), ints(999, 7) - 500, ints(40, 7)),
    "powers": (lambda x: x**3 + x**2.5, np.abs(floats(5))),
    "integer_power": (lambda a, b: a**b, ints(9, 20) - 4, ints(5, 20)),
    "casts": (lambda x: (x.astype(jnp.int32), x.astype(jnp.bfloat16), (x > 0).astype(jnp.float32)), floats(7) * 9),
    "casts_saturate": (lambda x: (x.astype(jnp.int8), x.astype(jnp.uint32)), np.array([1e9, -5, 300, 2.9], np.float32)),
    "bfloat16": (lambda x: jnp.tanh(x.astype(jnp.bfloat16)) * 3, floats(80, 9)),
    "float16": (lambda x: jnp.exp(x.astype(jnp.float16)) + 1, floats(80, 9)),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), floats(5)),
    "complex": (lambda x: jnp.abs(lax.complex(x, x) * (1 + 2j)), floats(5)),
    "rounding": (lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.sign(x), lax.round(x)), floats(80) * 3),
    "special_values": (lambda x: (jnp.isnan(x), jnp.isfinite(x / 0), jnp.maximum(x, jnp.nan)), floats(4)),
    "bit_counts": (lambda a: (lax.population_count(a), lax.clz(a), ~a, -a), ints(999, 7)),
    "special_functions": (lambda x: (lax.erf(x), lax.erf_inv(x * 0.2), lax.lgamma(x), lax.digamma(x)), floats(6)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), floats(6) * 1e4),
    "select_n": (lambda i, x, y: lax.select_n(i, x, y), ints(2, 50, 3).astype(bool), floats(50, 3), floats(50, 3)),
}

MOVEMENT: dict[str, tuple[Any, ...]] = {
    "passes_arguments_through": (lambda x, y: (x, y, x), floats(3), floats(2)),
    "constant_result": (lambda x: (x, jnp.ones(3)), floats(2)),
    "transpose": (lambda x: x.T, floats(3, 5)),
    "reshape_of_a_transpose": (lambda x: x.T.reshape(-1), floats(3, 5)),
    "empty": (lambda x: (x[:0], x.sum()), floats(0, 3)),
    "pad": (lambda x: jnp.pad(x, ((1, 1), (0, 2))), floats(8, 8)),
    "pad_negative_and_interior": (lambda x: lax.pad(x, 0.0, ((-1, 2, 1), (3, -2, 0))), floats(5, 6)),
    "pad_off_both_ends": (lambda x: lax.pad(x, 0.0, ((-2, -1, 2),)), floats(7)),
    "roll": (lambda x: jnp.roll(x, 1, 0), floats(8, 8)),
    "reverse_and_stride": (lambda x: x[::-1, ::2], floats(8, 8)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), floats(3, 4), floats(3, 2)),
    "stack": (lambda x, y: jnp.stack([x, y]), floats(3, 4), floats(3, 4)),
    "triangle": (jnp.tril, floats(5, 5)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 10), ints(10, 6)),
    "identity_matrix": (lambda x: x @ jnp.eye(5), floats(3, 5)),
}

REDUCTIONS: dict[str, tuple[Any, ...]] = {
    "softmax": (jax.nn.softmax, floats(500, 100)),
    "layer_norm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        floats(300, 200),
    ),
    "middle_axes": (lambda x: x.mean((0, 2)), floats(40, 50, 60)),
    "everything": (lambda x: x.sum(), floats(400, 500)),
    "columns": (lambda x: (x.sum(0), x.max(0)), floats(4000, 50)),
    "rows": (lambda x: (x.max(1), x.min(1)), floats(400, 500)),
    "variance": (lambda x: x.var(0), floats(400, 50)),
    "product": (lambda x: x.prod(1), floats(4, 5)),
    "all_and_any": (lambda x: ((x > 0).all(1), (x > 2).any()), floats(4, 5)),
    "log_sum_exp": (lambda x: jax.nn.logsumexp(x, -1), floats(100, 50)),
    "argmax": (lambda x: jnp.argmax(x, -1), floats(8, 16)),
    "argmin": (lambda x: jnp.argmin(x, 0), floats(8, 17)),
    "bfloat16_sum": (lambda x: x.astype(jnp.bfloat16).sum(1), floats(8, 160)),
    "integer_sum": (lambda x: x.astype(jnp.int8).sum(1, dtype=jnp.int8), ints(99, 8, 160)),
    "cumulative_sum": (lambda x: jnp.cumsum(x, 0), floats(16, 8)),
    "cumulative_reverse": (lambda x: lax.cumsum(x, 1, reverse=True), floats(16, 8)),
    "max_pool": (max_pool(3, 2, "SAME"), floats(2, 9, 9, 4)),
    "max_pool_in_blocks": (max_pool(2, 2, "VALID"), floats(64, 24, 24, 8)),
    "mean_pool": (mean_pool, floats(2, 8, 8, 4)),
    "median": (lambda x: jnp.median(x, 0), floats(9, 4)),
}

INDEXING: dict[str, tuple[Any, ...]] = {
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 2), (3, 4)), floats(8, 16), np.int32(7)),
    "dynamic_update": (
        lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i, 0)),
        floats(8, 16, 8),
        floats(8, 1, 8),
        np.int32(3),
    ),
    "embedding": (lambda table, i: table[i], floats(32, 8), ints(32, 5, 6)),
    "embedding_gradient": (jax.grad(squared(lambda table, i: table[i])), floats(32, 8), ints(32, 5, 6)),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i[:, None], 1), floats(8, 10), ints(10, 8)),
    "one_element_a_row": (lambda x, i: x[jnp.arange(8), i], floats(8, 10), ints(10, 8)),
    "scatter_add": (lambda x, i: x.at[i].add(2.0), floats(10), ints(10, 20)),
    "scatter_max": (lambda x, i: x.at[i, :].max(0.1), floats(10, 3), ints(10, 4)),
    "scatter_set": (lambda x, i: x.at[i].set(3.0, mode="drop"), floats(10), ints(20, 4)),
    "sort": (lambda x: jnp.sort(x, 0), floats(16, 8)),
    "argsort": (lambda x: jnp.argsort(x, -1), floats(16, 8)),
    "sort_descending": (lambda x: jnp.sort(x, descending=True), floats(30)),
    "sort_by_two_keys": (lambda x, y: lax.sort((x, y), num_keys=2), ints(3, 40), ints(9, 40)),
    "sort_with_payload": (lambda x, y: lax.sort_key_val(x, y), floats(40), ints(9, 40)),
    "top_k": (lambda x: lax.top_k(x, 3), floats(8, 16)),
    "search_sorted": (lambda x: jnp.searchsorted(jnp.sort(x), x), floats(20)),
    "bincount": (lambda i: jnp.bincount(i, length=10), ints(10, 50)),
}

MATRIX: dict[str, tuple[Any, ...]] = {
    "attention_scores": (lambda a, b: jnp.einsum("bqhk,bshk->bhqs", a, b), floats(2, 5, 3, 4), floats(2, 6, 3, 4)),
    "matrix_vector": (lambda a, b: a @ b, floats(5, 6), floats(6)),
    "two_contractions": (lambda a, b: jnp.tensordot(a, b, ((0, 2), (1, 0))), floats(3, 4, 5), floats(5, 3, 6)),
    "large": (lambda a, b: a @ b, floats(700, 300), floats(300, 900)),
    "wide": (lambda a, b: a @ b, floats(20, 300), floats(300, 9000)),
    "long_contraction": (lambda a, b: a.T @ b, floats(5000, 30), floats(5000, 20)),
    "integers": (lambda a, b: a @ b, ints(9, 4, 5), ints(9, 5, 6)),
    "int8": (
        lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        ints(99, 4, 5).astype("i1"),
        ints(99, 5, 6).astype("i1"),
    ),
    "bfloat16": (lambda x, y: x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16), floats(8, 9), floats(9, 7)),
    "complex": (lambda x, y: (x + 1j * x) @ (y - 2j), floats(8, 9), floats(9, 7)),
    "conv_same": (conv(), floats(2, 8, 8, 4), floats(3, 3, 4, 8)),
    "conv_strided": (conv((2, 2), "VALID"), floats(2, 9, 8, 4), floats(3, 3, 4, 8)),
    "conv_dilated": (conv((1, 1), ((2, 1), (0, 3)), (2, 1), (1, 2)), floats(2, 8, 8, 4), floats(3, 3, 4, 8)),
    "conv_channels_first": (conv(layout=NCHW), floats(2, 4, 8, 8), floats(8, 4, 3, 3)),
    "conv_depthwise": (conv(feature_groups=4), floats(2, 8, 8, 4), floats(3, 3, 1, 8)),
    "conv_batch_groups": (conv(padding="VALID", batch_groups=2), floats(4, 8, 8, 4), floats(3, 3, 4, 8)),
    "conv_1x1": (conv(padding="VALID"), floats(2, 8, 8, 4), floats(1, 1, 4, 8)),
    "conv_cropped": (conv(padding=((-1, 0), (0, -1))), floats(2, 8, 8, 4), floats(3, 3, 4, 8)),
    "conv_1d": (conv((1,), "SAME", (1,), (1,), ("NWC", "WIO", "NWC")), floats(2, 8, 4), floats(3, 4, 8)),
    "conv_3d": (
        conv((1, 1, 1), "SAME", (1, 1, 1), (1, 1, 1), ("NDHWC", "DHWIO", "NDHWC")),
        floats(2, 4, 5, 6, 3),
        floats(2, 3, 3, 3, 4),
    ),
    "conv_one_large_image": (conv(), floats(1, 200, 200, 16), floats(3, 3, 16, 8)),
    "conv_1x1_large_image": (conv(padding="VALID"), floats(1, 300, 300, 16), floats(1, 1, 16, 8)),
    "conv_vmapped": (jax.vmap(conv()), floats(3, 2, 8, 8, 4), floats(3, 3, 3, 4, 8)),
}

CONTROL: dict[str, tuple[Any, ...]] = {
    "scan": (lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c @ m), c.sum()), x, w), floats(8, 16), floats(3, 16, 16)),
    "scan_with_several_outputs": (
        lambda x: lax.scan(lambda c, a: (c + a, (c * a, a[::-1])), jnp.zeros(3), x),
        floats(6, 3),
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c[1].sum() > 1e-2, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)),
        np.abs(floats(8, 8)),
    ),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda x: x @ x.T, lambda x: x @ x.T * 2, x), floats(8, 8)),
    "switch": (lambda i, x: lax.switch(i, [lambda x: x + 1, lambda x: x * 2, jnp.sin], x), np.int32(1), floats(5)),
    "switch_out_of_range": (lambda i, x: lax.switch(i, [jnp.cos, jnp.sin], x), np.int32(9), floats(5)),
    "loop_updates_in_place": (lambda x: lax.fori_loop(0, 5, lambda i, x: x.at[i].set(i * 2.0), x), floats(8)),
    "loop_reads_what_it_updates": (
        lambda x: lax.fori_loop(0, 7, lambda i, x: x.at[i].set(x[i + 1] + x.sum()), x),
        floats(8),
    ),
    "loop_swaps": (lambda a, b: lax.fori_loop(0, 5, lambda i, c: (c[1], c[0] + c[1]), (a, b)), floats(4), floats(4)),
    "nested_loops": (
        lambda x: lax.scan(lambda c, _: (lax.fori_loop(0, 3, lambda i, y: y * 0.9 + i, c), c[0]), x, None, length=4),
        floats(4),
    ),
    "lstm": (lstm, floats(5, 4, 8), floats(8, 32), floats(8, 32)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), floats(17)),
    "map": (lambda x: lax.map(lambda a: a @ a.T, x), floats(3, 4, 4)),
}

RANDOM: dict[str, tuple[Any, ...]] = {
    "normal": (lambda: jax.random.normal(key(), (16, 8)),),
    "bernoulli": (lambda: jax.random.bernoulli(key(), 0.3, (160, 800)),),
    "permutation": (lambda: jax.random.permutation(key(), 100),),
    "truncated_normal": (lambda: jax.random.truncated_normal(key(), -2, 2, (100,)),),
    "categorical": (lambda logits: jax.random.categorical(key(), logits), floats(8, 5)),
}


def symmetric(*shape: int) -> np.ndarray[Any, Any]:
    matrix = floats(*shape)
    return matrix @ np.swapaxes(matrix, -1, -2) + np.eye(shape[-1], dtype=np.float32)


LINALG: dict[str, tuple[Any, ...]] = {
    "cholesky": (jnp.linalg.cholesky, symmetric(3, 5, 5)),
    "cholesky_of_an_indefinite_matrix": (jnp.linalg.cholesky, -np.eye(3, dtype=np.float32)),
    "triangular_solve": (
        lambda a, b: [
            lax.linalg.triangular_solve(a, b, left_side=left, lower=True, transpose_a=transpose)
            for left in (True, False)
            for transpose in (True, False)
        ],
        np.tril(symmetric(2, 4, 4)),
        floats(2, 4, 4),
    ),
    "qr": (lambda x: [jnp.abs(part) for part in jnp.linalg.qr(x)], floats(2, 6, 4)),
    "solve": (jnp.linalg.solve, symmetric(5, 5), floats(5, 2)),
    "determinant": (jnp.linalg.det, floats(3, 4, 4)),
    "eigenvalues": (jnp.linalg.eigvalsh, symmetric(2, 5, 5)),
    "singular_values": (lambda x: jnp.linalg.svd(x, compute_uv=False), floats(5, 4)),
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.ifft2(x), jnp.fft.rfft(x), jnp.fft.irfft(x)), floats(3, 8)),
}

EDGES: dict[str, tuple[Any, ...]] = {
    "bits_of_negative_numbers": (lax.population_count, np.array([-1, 5, -7], np.int32)),
    "arithmetic_shift_of_unsigned": (
        lambda x: lax.shift_right_arithmetic(x, x // x),
        np.array([0x80000000], np.uint32),
    ),
    "empty_random_numbers": (lambda: jax.random.uniform(key(), (0,)),),
    "general_reduce_of_nothing": (
        lambda x: lax.reduce(x, np.complex64(0), lambda a, b: a * b + 1, (1,)),
        np.zeros((0, 4), np.complex64),
    ),
    "work_on_nothing": (
        lambda x: (x @ x.T, x.T @ x, x.sum(1), jnp.sort(x), jnp.cumsum(x, 1), lax.bitcast_convert_type(x, jnp.int8)),
        floats(3, 0),
    ),
    "convolution_of_nothing": (conv(), floats(0, 4, 4, 2), floats(3, 3, 2, 5)),
    "maximum_of_nothing": (lambda x: jnp.max(x, axis=0, initial=-1.0), floats(0, 3)),
    "singular_triangular_solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        np.array([[1, 0], [2, 0]], np.float32),
        np.ones((2, 1), np.float32),
    ),
    "expm": (jax.scipy.linalg.expm, floats(3, 3)),
    "search_for_one_number": (lambda a: jnp.searchsorted(a, 2.5), np.arange(5, dtype=np.float32)),
    "loop_to_infinity": (lambda x: lax.while_loop(lambda c: c < jnp.inf, lambda c: c * 1e30, x), np.float32(1)),
    "sort_special_values": (jnp.sort, np.array([np.nan, np.inf, -np.inf, -0.0, 3e38], np.float32)),
    "sort_inside_a_loop": (
        lambda x: lax.fori_loop(0, 2, lambda i, x: jnp.sort(x, axis=-1) * (i + 1), x),
        floats(3, 5),
    ),
    "update_of_a_broadcast": (
        lambda a, i: lax.dynamic_update_slice(jnp.full((10,), jnp.sin(a[0])), jnp.ones(2), (i,)) * 2,
        floats(3),
        np.int32(4),
    ),
    "condition_that_updates_its_own_copy": (
        lambda x: lax.while_loop(
            lambda c: lax.dynamic_update_slice(c[1], jnp.zeros(1), (c[0],)).sum() < 100,
            lambda c: (c[0] + 1, c[1] * 2),
            (0, x),
        ),
        np.ones(40, np.float32),
    ),
    "branch_that_updates_a_view_of_what_is_used_later": (
        lambda x, i: (
            (c := jnp.sin(x)) + 1,
            lax.cond(
                i > 0,
                lambda: lax.dynamic_update_slice(c.reshape(-1), jnp.ones(2), (i,)),
                lambda: c.reshape(-1) * 2,
            ),
        ),
        floats(4, 5),
        np.int32(3),
    ),
    "gather_with_the_index_vector_first": (
        lambda x, i: lax.gather(
            x,
            i,
            lax.GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(0,), start_index_map=(0,)),
            (1, 4),
        ),
        floats(6, 4),
        ints(6, 4, 1),
    ),
}

GRADIENTS: dict[str, tuple[Any, ...]] = {
    "conv": (jax.grad(squared(lambda k, x: conv()(x, k)), (0, 1)), floats(3, 3, 4, 8), floats(16, 8, 8, 4)),
    "conv_strided": (
        jax.grad(squared(lambda k, x: conv((2, 2))(x, k)), (0, 1)),
        floats(3, 3, 4, 8),
        floats(16, 9, 9, 4),
    ),
    "conv_depthwise": (
        jax.grad(squared(lambda k, x: conv(feature_groups=4)(x, k)), (0, 1)),
        floats(3, 3, 1, 8),
        floats(6, 8, 8, 4),
    ),
    "max_pool_overlapping": (jax.grad(squared(max_pool(3, 2, "SAME"))), floats(2, 9, 9, 4)),
    "max_pool_with_ties": (jax.grad(squared(lambda x: max_pool(2, 2, "VALID")(jax.nn.relu(x)))), floats(32, 24, 24, 4)),
    "max_pool_of_padding": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME")[1:4].sum()),
        np.array([1, 2, 3, -np.inf, 5], np.float32),
    ),
    "mean_pool": (jax.grad(squared(mean_pool)), floats(2, 8, 8, 4)),
    "lstm": (jax.grad(squared(lstm), (1, 2)), floats(5, 4, 8), floats(8, 32), floats(8, 32)),
    "scan": (jax.grad(lambda x: lax.scan(lambda c, a: (jnp.sin(c * a), c), jnp.ones(3), x)[1].sum()), floats(6, 3)),
    "cond": (jax.grad(lambda x: lax.cond(x.sum() > 0, lambda x: (x**2).sum(), lambda x: x.sum(), x)), floats(4)),
    "cross_entropy": (
        jax.grad(lambda x, i: -jax.nn.log_softmax(x)[jnp.arange(8), i].mean()),
        floats(8, 10),
        ints(10, 8),
    ),
}

PROGRAMS = {
    f"{group}-{name}": row
    for group, table in {
        "elementwise": ELEMENTWISE,
        "movement": MOVEMENT,
        "reductions": REDUCTIONS,
        "indexing": INDEXING,
        "matrix": MATRIX,
        "control": CONTROL,
        "random": RANDOM,
        "linalg": LINALG,
        "edges": EDGES,
        "gradients": GRADIENTS,
    }.items()
    for name, row in table.items()
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernel_computes_what_jax_computes(name: str, chips: Chips) -> None:
    function, *arguments = PROGRAMS[name]
    before = [np.asarray(argument).tobytes() for argument in arguments]
    with jax.default_matmul_precision("highest"):
        actual = chips(function, *arguments)
        expected = jax.tree.leaves(jax.jit(function)(*arguments))
    assert before == [np.asarray(argument).tobytes() for argument in arguments]
    assert len(expected) == len(actual)
    for want, got in zip(expected, actual, strict=True):
        assert_same(want, got)
