"""Programs over eight cores: each core's part against JAX's CPU backend with eight devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.backend.conftest import Chips, per_core

_random = np.random.RandomState(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return _random.randn(*shape).astype(np.float32)


def ints(limit: int, *shape: int) -> np.ndarray[Any, Any]:
    return _random.randint(0, limit, shape).astype(np.int32)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("data", "model"))


def two_layers(x: Any, w1: Any, w2: Any) -> Any:
    return jax.nn.gelu(x @ w1) @ w2


def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (jnp.einsum("bsd,dhk->bshk", x, w) for w in (wq, wk, wv))
    mask = jnp.where(jnp.tril(jnp.ones((x.shape[1],) * 2)), 0, -1e9)
    weights = jax.nn.softmax(jnp.einsum("bqhk,bshk->bhqs", q, k) + mask)
    return jnp.einsum("bhqs,bshk,hkd->bqd", weights, v, wo)


def conv(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def manual(function: Any, ins: Any, outs: Any, **options: Any) -> Any:
    return jax.shard_map(function, mesh=mesh(), in_specs=ins, out_specs=outs, **options)


def ring(x: Any) -> Any:
    return lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)]) + lax.axis_index("data")


def loop_with_own_trip_count(x: Any) -> Any:
    limit = lax.axis_index("data") + 1
    return lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]


def collatz(x: Any) -> Any:
    """Core 0's number never ends the loop: it doesn't take that branch."""
    n = lax.axis_index("data") * 3
    steps = lax.cond(
        n > 0,
        lambda: lax.while_loop(lambda n: n != 1, lambda n: lax.select(n % 2 == 0, n // 2, 3 * n + 1), n),
        lambda: n - 1,
    )
    return x + steps


def branch_by_core(x: Any) -> Any:
    return lax.cond(lax.axis_index("data") % 2 == 0, lambda x: x + 1, lambda x: x * 10, x)


ATTENTION = (floats(4, 8, 16), floats(16, 4, 4), floats(16, 4, 4), floats(16, 4, 4), floats(4, 4, 16))
BY_HEAD = (P("data"), P(None, "model"), P(None, "model"), P(None, "model"), P("model"))
BOTH = P("data", "model")

SHARDED: dict[str, tuple[Any, tuple[Any, ...], tuple[P, ...]]] = {
    "data_parallel_gradient": (
        jax.grad(lambda w, x: (two_layers(x, *w) ** 2).mean()),
        ((floats(16, 32), floats(32, 16)), floats(16, 16)),
        ((P(), P()), P(("data", "model"))),
    ),
    "tensor_parallel": (
        two_layers,
        (floats(8, 16), floats(16, 32), floats(32, 16)),
        (P("data"), P(None, "model"), P("model")),
    ),
    "tensor_parallel_gradient": (
        jax.grad(lambda w, x: (two_layers(x, *w) ** 2).mean()),
        ((floats(16, 32), floats(32, 16)), floats(8, 16)),
        ((P(None, "model"), P("model", None)), P("data", None)),
    ),
    "fully_sharded_gradient": (
        jax.grad(lambda w, x: (two_layers(x, *w) ** 2).mean()),
        ((floats(16, 32), floats(32, 16)), floats(8, 16)),
        ((P("data", None), P("data", None)), P("data", None)),
    ),
    "attention": (attention, ATTENTION, BY_HEAD),
    "attention_gradient": (
        jax.grad(lambda w, x: (attention(x, *w) ** 2).mean()),
        (ATTENTION[1:], ATTENTION[0]),
        (BY_HEAD[1:], BY_HEAD[0]),
    ),
    "embedding_over_vocabulary": (lambda e, i: e[i], (floats(32, 8), ints(32, 16)), (P("model", None), P("data"))),
    "embedding_gradient": (
        jax.grad(lambda e, i: (e[i] ** 2).sum()),
        (floats(32, 8), ints(32, 16)),
        (P("model", None), P("data")),
    ),
    "scan": (
        lambda x, w: lax.scan(lambda c, m: (jnp.tanh(c @ m), c.sum()), x, w),
        (floats(8, 16), floats(3, 16, 16)),
        (P("data", None), P(None, None, "model")),
    ),
    "sort": (lambda x: jnp.sort(x, 0), (floats(16, 8),), (BOTH,)),
    "cumulative_sum": (lambda x: jnp.cumsum(x, 0), (floats(16, 8),), (BOTH,)),
    "conv_over_batch": (conv, (floats(8, 8, 8, 4), floats(3, 3, 4, 8)), (P("data"), P(None, None, None, "model"))),
    "conv_over_space": (conv, (floats(2, 16, 8, 4), floats(3, 3, 4, 8)), (P(None, "data"), P())),
    "conv_gradient": (
        jax.grad(lambda k, x: (conv(x, k) ** 2).mean()),
        (floats(3, 3, 4, 8), floats(16, 8, 8, 4)),
        (P(), P(("data", "model"))),
    ),
    "batch_norm": (lambda x: (x - x.mean((0, 1))) / jnp.sqrt(x.var((0, 1)) + 1e-5), (floats(8, 4, 6),), (P("data"),)),
    "batch_maximum": (lambda x: x - x.max(0), (floats(16, 8),), (BOTH,)),
    "reshape": (lambda x: x.reshape(8, 4, 8).transpose(1, 0, 2).reshape(4, 64), (floats(16, 16),), (BOTH,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 0), (floats(8, 8), floats(8, 8)), (BOTH, P("data", None))),
    "slice": (lambda x: x[1:-1:2, 3:], (floats(16, 16),), (BOTH,)),
    "update_along_the_sharded_axis": (
        lambda c, x, i: lax.dynamic_update_slice(c, x, (0, i, 0)),
        (floats(8, 16, 8), floats(8, 1, 8), np.int32(3)),
        (BOTH, P("data"), P()),
    ),
    "pad": (lambda x: jnp.pad(x, ((1, 1), (0, 2))), (floats(8, 8),), (BOTH,)),
    "random_numbers": (
        lambda k: lax.with_sharding_constraint(
            jax.random.normal(jax.random.wrap_key_data(k), (16, 8)), NamedSharding(mesh(), BOTH)
        ),
        (np.array([0, 7], np.uint32),),
        (P(),),
    ),
    "argmax": (lambda x: jnp.argmax(x, -1), (floats(8, 16),), (BOTH,)),
    "uneven": (
        lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh(), P("data")))[:3],
        (floats(6, 4),),
        (P(),),
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c[1].sum() > 1e-2, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)),
        (np.abs(floats(8, 8)),),
        (BOTH,),
    ),
    "shard_map_ring": (manual(ring, BOTH, BOTH), (floats(8, 8),), (BOTH,)),
    "shard_map_all_to_all": (
        manual(lambda x: lax.all_to_all(x, "data", 1, 0, tiled=True), P("data", None), P("data", None)),
        (floats(16, 8),),
        (P("data", None),),
    ),
    "shard_map_gather_and_scatter": (
        manual(
            lambda x: lax.psum_scatter(lax.all_gather(x, "data", tiled=True), "data", tiled=True),
            P("data", None),
            P("data", None),
        ),
        (floats(16, 8),),
        (P("data", None),),
    ),
    "shard_map_over_one_axis": (
        manual(
            lambda x: lax.psum(jnp.tanh(x) @ jnp.ones((8, 4)), "data"),
            P("data", None),
            P(None, None),
            axis_names={"data"},
        ),
        (floats(16, 8),),
        (BOTH,),
    ),
    "shard_map_maximum": (manual(lambda x: lax.pmax(x, "data"), BOTH, P(None, "model")), (floats(16, 8),), (BOTH,)),
    "cores_loop_their_own_number_of_times": (
        manual(loop_with_own_trip_count, BOTH, BOTH, check_vma=False),
        (floats(8, 8),),
        (BOTH,),
    ),
    "a_loop_ends_though_it_would_not_for_a_core_that_is_not_in_it": (
        manual(collatz, BOTH, BOTH, check_vma=False),
        (floats(8, 8),),
        (BOTH,),
    ),
    "sum_over_cores_of_sums_that_do_not_start_at_zero": (
        manual(lambda x: lax.psum(lax.reduce(x, np.float32(5), lax.add, (0,)), "data"), BOTH, P("model")),
        (floats(8, 8),),
        (BOTH,),
    ),
    "batched_product_with_a_replicated_matrix": (
        manual(lambda a, w: jnp.einsum("bmk,bkn->bmn", a, w), (P(None, "data"), P()), P(None, "data")),
        (floats(3, 8, 4), floats(3, 4, 5)),
        (P(None, "data"), P()),
    ),
    "cores_take_different_branches": (manual(branch_by_core, BOTH, BOTH), (floats(8, 8),), (BOTH,)),
}


@pytest.mark.parametrize("name", SHARDED)
def test_every_core_computes_its_part(name: str, chips: Chips) -> None:
    function, arguments, specs = SHARDED[name]
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh(), spec), specs, is_leaf=lambda x: isinstance(x, P))
    placed = jax.device_put(arguments, shardings)
    with jax.default_matmul_precision("highest"):
        actual = chips.run(function, *placed, cores=8)
        expected = jax.tree.leaves(jax.jit(function)(*placed))
    assert len(actual) == len(expected)
    for want, got in zip(expected, actual, strict=True):
        parts = per_core(want) if len(want.devices()) > 1 else np.asarray(want)[None]
        mine = np.broadcast_to(got.array, (8, *got.array.shape)) if got.uniform else got.array
        np.testing.assert_allclose(mine[: len(parts)], parts, rtol=1e-4, atol=1e-4)


def test_replicated_results_are_stored_once(chips: Chips) -> None:
    function, arguments, specs = SHARDED["data_parallel_gradient"]
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh(), spec), specs, is_leaf=lambda x: isinstance(x, P))
    results = chips.run(function, *jax.device_put(arguments, shardings), cores=8)
    assert [value.uniform for value in results] == [True, True]


def test_copies_that_differ_are_computed_core_by_core(chips: Chips) -> None:
    """An argument declared replicated whose copies differ: each core goes on with its own."""
    from tests.backend.conftest import Value

    x = jax.device_put(floats(8, 4), NamedSharding(mesh(), P()))
    loaded = chips.load(lambda x: x * 2, x, cores=8)
    different = floats(8, 8, 4)
    [result] = loaded.run([Value(different, uniform=False)]).results
    assert not result.uniform
    np.testing.assert_array_equal(result.array, different * 2)


def test_collectives_on_one_core_move_nothing(chips: Chips) -> None:
    one = Mesh(np.array(jax.devices("cpu")[:1]), ("x",))

    def function(x: jax.Array) -> list[jax.Array]:
        return [
            lax.psum_scatter(x, "x", tiled=True),
            lax.ppermute(x, "x", [(0, 0)]),
            lax.ppermute(x, "x", []),
            lax.all_to_all(x, "x", 0, 0, tiled=True),
            lax.all_gather(x, "x", tiled=True),
            lax.psum(x, "x"),
        ]

    x = floats(4, 3)
    mapped = jax.shard_map(function, mesh=one, in_specs=P(), out_specs=P(), check_vma=False)
    for value, expected in zip(chips.run(mapped, x), [x, x, x * 0, x, x, x], strict=True):
        np.testing.assert_array_equal(value.array, expected)


def test_a_value_that_leaves_a_function_unreduced_is_not_summed_there(chips: Chips) -> None:
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(8.0, dtype=np.float32), P(None, reduced={"x"}))
        varying = jax.jit(jax.shard_map(lambda x: jax.lax.pcast(x, "x", to="varying"), out_specs=P("x")))
        (result,) = chips.run(jax.grad(jax.jit(lambda x: (varying(x) ** 2).sum())), x, cores=8)
    np.testing.assert_array_equal(result.array, np.broadcast_to(2 * np.arange(8.0), result.array.shape))
