"""32 sharded programs, as people write them: on all cores of a slice, against the same program on one CPU device.

    tpuctl run job --type v3-8 --processes 1 -- python tests/conformance/spmd_programs.py

Likewise on v3-64 and v3-512. The slice's cores are a mesh of a data axis ``d`` and a model axis ``m``, about twice as
long as wide; shapes grow with it. Programs in ``shard_map`` name their cores, so they have a reference of their own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.table import Table

TOLERANCE = 2e-2
"""Of the largest value: products have bfloat16 operands on the slice and float32 on the CPU."""

Array = Any


@dataclass(frozen=True)
class Case:
    """A program, its arguments with their shardings, and what computes the same on one device."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    specs: tuple[Any, ...]
    reference: Callable[..., Any] | None = None


def mesh_of(devices: list[Any]) -> Mesh:
    """All devices on a data and a model axis."""
    width = 1
    while width * width * 4 <= len(devices):
        width *= 2
    return Mesh(np.array(devices).reshape(-1, width), ("d", "m"))


def mlp(x: Array, w1: Array, w2: Array) -> Array:
    return jax.nn.gelu(x @ w1) @ w2


def mlp_loss(w: tuple[Array, Array], x: Array) -> Array:
    return (mlp(x, *w) ** 2).mean()


def attention(x: Array, wq: Array, wk: Array, wv: Array, wo: Array) -> Array:
    q, k, v = (jnp.einsum("bsd,dhk->bshk", x, w) for w in (wq, wk, wv))
    past = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(past, jnp.einsum("bqhk,bshk->bhqs", q, k), -1e9))
    return jnp.einsum("bhqs,bshk,hkd->bqd", weights, v, wo)


def attention_loss(w: tuple[Array, ...], x: Array) -> Array:
    return (attention(x, *w) ** 2).mean()


def embedding_loss(table: Array, indices: Array) -> Array:
    return (table[indices] ** 2).sum()


def convolve(x: Array, kernel: Array) -> Array:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def recurrent(x: Array, w: Array) -> Array:
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, w)


def normalise(x: Array) -> Array:
    return (x - x.mean((0, 1))) / jnp.sqrt(x.var((0, 1)) + 1e-5)


def halve(x: Array) -> Array:
    return lax.while_loop(lambda c: c[1].max() > 1e-2, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))


def update(cache: Array, x: Array, index: Array) -> Array:
    return lax.dynamic_update_slice(cache, x, (0, index, 0))


def cases(mesh: Mesh) -> dict[str, Case]:
    """The programs by name, for a mesh."""
    d, m = mesh.devices.shape
    random = np.random.RandomState(0)

    def normal(*shape: int) -> Array:
        return random.randn(*shape).astype(np.float32)

    def small(*shape: int) -> Array:
        return normal(*shape) / np.float32(np.sqrt(shape[0]))

    def integers(limit: int, size: int) -> Array:
        return random.randint(0, limit, size).astype(np.int32)

    def constrain(x: Array, *spec: Any) -> Array:
        return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def mapped(function: Callable[..., Any], inside: P, outside: P, **options: Any) -> Callable[..., Any]:
        return jax.shard_map(function, mesh=mesh, in_specs=inside, out_specs=outside, **options)

    weights = (small(4 * m, 8 * m), small(8 * m, 4 * m))
    heads = (small(4 * m, 2 * m, 4), small(4 * m, 2 * m, 4), small(4 * m, 2 * m, 4), small(2 * m, 4, 4 * m))
    by_head = (P(None, "m"), P(None, "m"), P(None, "m"), P("m"))
    table, indices = normal(8 * m, 4 * m), integers(8 * m, 4 * d)
    cache, line, index = normal(2 * d, 16, 4 * m), normal(2 * d, 1, 4 * m), np.int32(3)
    square = normal(4 * d, 4 * m)
    ring = [(i, (i + 1) % d) for i in range(d)]
    return {
        "mlp, tensor parallel": Case(mlp, (normal(2 * d, 4 * m), *weights), (P("d"), P(None, "m"), P("m"))),
        "its gradient": Case(jax.grad(mlp_loss), (weights, normal(2 * d, 4 * m)), ((P(None, "m"), P("m")), P("d"))),
        "mlp, fully sharded": Case(
            jax.grad(mlp_loss),
            ((small(4 * d, 8 * d), small(8 * d, 4 * d)), normal(2 * d, 4 * d)),
            ((P("d"), P("d")), P("d")),
        ),
        "attention": Case(attention, (normal(2 * d, 8, 4 * m), *heads), (P("d"), *by_head)),
        "attention's gradient": Case(jax.grad(attention_loss), (heads, normal(2 * d, 8, 4 * m)), (by_head, P("d"))),
        "embedding's gradient": Case(jax.grad(embedding_loss), (table, indices), (P(None, "m"), P("d"))),
        "embedding, by rows": Case(lambda table, i: table[i], (table, indices), (P("m"), P("d"))),
        "its gradient, by rows": Case(jax.grad(embedding_loss), (table, indices), (P("m"), P("d"))),
        "scan": Case(
            recurrent, (normal(2 * d, 4 * m), small(4 * m, 3, 4 * m).swapaxes(0, 1)), (P("d"), P(None, None, "m"))
        ),
        "sort": Case(lambda x: jnp.sort(x, 0), (square,), (P("d", "m"),)),
        "cumulative sum": Case(lambda x: jnp.cumsum(x, 0), (square,), (P("d", "m"),)),
        "convolution, by batch": Case(
            convolve, (normal(2 * d, 8, 8, 4), small(3, 3, 4, 4 * m)), (P("d"), P(None, None, None, "m"))
        ),
        "convolution, by rows": Case(convolve, (normal(2, 4 * d, 8, 4), small(3, 3, 4, 8)), (P(None, "d"), P())),
        "batch norm": Case(normalise, (normal(2 * d, 4, 6),), (P("d"),)),
        "reshape and transpose": Case(
            lambda x: x.reshape(2 * d, 2, 4 * m).transpose(1, 0, 2).reshape(2, -1), (square,), (P("d", "m"),)
        ),
        "concatenate": Case(lambda x, y: jnp.concatenate([x, y]), (square, square + 1), (P("d", "m"), P("d"))),
        "strided slice": Case(lambda x: x[1:-1:2, 3:], (square,), (P("d", "m"),)),
        "cache update": Case(update, (cache, line, index), (P("d", None, "m"), P("d", None, "m"), P())),
        "cache update, by place": Case(update, (normal(4, 4 * m, 8), normal(4, 1, 8), index), (P(None, "m"), P(), P())),
        "pad": Case(lambda x: jnp.pad(x, ((1, 1), (0, 2))), (square,), (P("d", "m"),)),
        "roll": Case(lambda x: jnp.roll(x, 1, 0), (square,), (P("d", "m"),)),
        "random": Case(
            lambda k: jax.random.normal(jax.random.wrap_key_data(k), (4 * d, 4 * m)),
            (np.array([0, 7], np.uint32),),
            (P(),),
        ),
        "argmax": Case(lambda x: jnp.argmax(x, -1), (square,), (P("d", "m"),)),
        "top k": Case(lambda x: lax.top_k(x, 3), (square,), (P("d", "m"),)),
        "reshard": Case(
            lambda x: constrain(constrain(x * 2, "m", "d"), None, ("d", "m")),
            (normal(4 * d * m, 4 * d * m // 4),),
            (P("d", "m"),),
            lambda x: x * 2,
        ),
        "uneven": Case(lambda x: constrain(x * 2, "d")[:3], (normal(d + 1, 4),), (P(),), lambda x: x[:3] * 2),
        "while": Case(halve, (np.abs(square),), (P("d", "m"),)),
        "cond": Case(
            lambda x: lax.cond(x.sum() > 0, lambda x: x.T @ x, lambda x: 2 * (x.T @ x), x),
            (np.abs(square),),
            (P("d", "m"),),
        ),
        "shard_map: ring": Case(
            mapped(lambda x: lax.ppermute(x, "d", ring) + lax.axis_index("d"), P("d", "m"), P("d", "m")),
            (square,),
            (P("d", "m"),),
            lambda x: jnp.roll(x, 4, 0) + jnp.arange(d).repeat(4)[:, None],
        ),
        "shard_map: all to all": Case(
            mapped(lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True), P("d"), P("d")),
            (normal(2 * d, 2 * d),),
            (P("d"),),
            lambda x: x.reshape(d, 2, d, 2).transpose(2, 0, 1, 3).reshape(2 * d * d, 2),
        ),
        "shard_map: gather, scatter": Case(
            mapped(lambda x: lax.psum_scatter(lax.all_gather(x, "d", tiled=True), "d", tiled=True), P("d"), P("d")),
            (square,),
            (P("d"),),
            lambda x: x * d,
        ),
        "shard_map: in part": Case(
            mapped(lambda x: lax.psum(jnp.tanh(x), "d"), P("d"), P(), axis_names={"d"}),
            (square,),
            (P("d", "m"),),
            lambda x: jnp.tanh(x).reshape(d, 4, -1).sum(0),
        ),
    }


def error(actual: Any, expected: Any) -> float:
    """Largest difference over all results, as a part of the largest value."""
    worst = 0.0
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        got, wanted = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert got.shape == wanted.shape, f"shape {got.shape}, not {wanted.shape}"
        worst = max(worst, float(np.abs(got - wanted).max() / max(1e-9, np.abs(wanted).max())))
    return worst


def main() -> int:
    mesh = mesh_of(jax.devices())
    table = Table("program", "first call", "again", "error", title=f"{mesh.size} cores, mesh {dict(mesh.shape)}")
    failed = 0
    for name, case in cases(mesh).items():
        with jax.default_device(jax.devices("cpu")[0]):
            expected = jax.tree.map(np.asarray, jax.jit(case.reference or case.function)(*case.arguments))
        shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), case.specs, is_leaf=lambda s: isinstance(s, P))
        function = jax.jit(case.function)
        arguments = jax.device_put(case.arguments, shardings)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            actual = jax.block_until_ready(function(*arguments))
            seconds.append(time.perf_counter() - start)
        difference = error(actual, expected)
        wrong = not difference <= TOLERANCE
        failed += wrong
        words = f"[red]{difference:.1e}[/]" if wrong else f"{difference:.1e}"
        table.add_row(name, f"{seconds[0] * 1e3:.0f} ms", f"{seconds[1] * 1e3:.1f} ms", words)
    Console().print(table)
    print(f"{len(table.rows) - failed} of {len(table.rows)} programs are right on {mesh.size} cores")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
