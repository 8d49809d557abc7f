"""Three ways to train one transformer on many cores, each against the same steps on one CPU device.

    tpuctl run job --type v3-64 --processes 1 -- python tests/conformance/parallel_training.py 2d pipeline
    tpuctl run job --type v3-256 --processes 1 -- python tests/conformance/parallel_training.py fsdp

``2d``: batch over a data axis, heads and hidden units over a model axis. ``pipeline``: a stage of layers a core,
microbatches handed on by collective-permute. ``fsdp``: every weight cut over all cores, gathered where it is used.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.table import Table

WIDTH, HEADS, HIDDEN, VOCABULARY, LENGTH = 256, 8, 1024, 512, 32
STEPS = 4
RATE = 0.05
TOLERANCE = 1e-2
"""Of a loss: products have bfloat16 operands on the slice and float32 on the CPU."""

Weights = dict[str, Any]


def weights(layers: int) -> Weights:
    """A decoder's weights; those of its layers are stacked."""
    random = np.random.RandomState(0)

    def matrix(*shape: int) -> Any:
        return (random.randn(*shape) / np.sqrt(shape[-2])).astype(np.float32)

    return {
        "table": matrix(VOCABULARY, WIDTH),
        "qkv": matrix(layers, WIDTH, 3 * WIDTH),
        "out": matrix(layers, WIDTH, WIDTH),
        "up": matrix(layers, WIDTH, HIDDEN),
        "down": matrix(layers, HIDDEN, WIDTH),
    }


def normalise(x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def layer(x: Any, w: Weights) -> Any:
    """One decoder layer, on [batch, length, width]."""
    q, k, v = jnp.split((normalise(x) @ w["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
    past = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(past, scores, -1e9)), v)
    x = x + mixed.reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(normalise(x) @ w["up"]) @ w["down"]


def stack(x: Any, layers: Weights) -> Any:
    return lax.scan(lambda x, w: (layer(x, w), None), x, layers)[0]


def loss(run: Callable[[Any, Weights], Any], w: Weights, tokens: Any) -> Any:
    """Cross entropy of the next token; ``run`` takes [batch, length, width] through the layers."""
    layers = {name: w[name] for name in ("qkv", "out", "up", "down")}
    x = normalise(run(w["table"][tokens[:, :-1]], layers))
    scores = jax.nn.log_softmax(x @ w["table"].T)
    return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()


def train(
    run: Callable[[Any, Weights], Any], w: Weights, tokens: Any, spec: dict[str, Any] | None = None
) -> list[float]:
    """The losses of a few steps; and on standard error how long each took."""

    @partial(jax.jit, donate_argnums=0)
    def step(w: Weights, tokens: Any) -> Any:
        value, gradient = jax.value_and_grad(partial(loss, run))(w, tokens)
        w = jax.tree.map(lambda w, g: w - RATE * g, w, gradient)
        return w if spec is None else lax.with_sharding_constraint(w, spec), value

    losses = []
    for _ in range(STEPS):
        start = time.perf_counter()
        w, value = step(w, tokens)
        losses.append(float(value))
        print(f"loss {losses[-1]:.4f} in {time.perf_counter() - start:.2f} s", file=sys.stderr)
    return losses


def two_dimensional(devices: Any) -> tuple[int, int, Callable[..., list[float]]]:
    mesh = Mesh(devices.reshape(-1, 8), ("data", "model"))
    spec = {
        "table": P(None, "model"),
        "qkv": P(None, None, "model"),
        "out": P(None, "model"),
        "up": P(None, None, "model"),
        "down": P(None, "model"),
    }
    return 4, 2 * mesh.shape["data"], _sharded(mesh, spec, P("data"))


def fully_sharded(devices: Any) -> tuple[int, int, Callable[..., list[float]]]:
    mesh = Mesh(devices, ("data",))
    spec = {name: P(None, None, "data") for name in ("qkv", "out", "up", "down")} | {"table": P("data")}
    return 2, mesh.size, _sharded(mesh, spec, P("data"))


def _sharded(mesh: Mesh, spec: dict[str, P], batch: P) -> Callable[..., list[float]]:
    shardings = {name: NamedSharding(mesh, each) for name, each in spec.items()}

    def run(w: Weights, tokens: Any) -> list[float]:
        return train(stack, jax.device_put(w, shardings), jax.device_put(tokens, NamedSharding(mesh, batch)), shardings)

    return run


def pipelined(devices: Any) -> tuple[int, int, Callable[..., list[float]]]:
    """Stages in a row; every tick each takes what the one before has made. A microbatch comes out after all stages."""
    mesh = Mesh(devices.reshape(8, -1), ("stage", "data"))
    stages, microbatches = 8, 8
    onward = [(i, i + 1) for i in range(stages - 1)]

    def pipeline(x: Any, layers: Weights) -> Any:
        queue = x.reshape(microbatches, -1, *x.shape[1:])
        stage = lax.axis_index("stage")

        def tick(carry: Any, time: Any) -> Any:
            before, done = carry
            fresh = queue[jnp.minimum(time, microbatches - 1)]
            made = stack(jnp.where(stage == 0, fresh, before), layers)
            place = jnp.maximum(time - (stages - 1), 0)
            out = jnp.where((stage == stages - 1) & (time >= stages - 1), made, done[place])
            return (lax.ppermute(made, "stage", onward), done.at[place].set(out)), None

        start = lax.pcast((jnp.zeros_like(queue[0]), jnp.zeros_like(queue)), "stage", to="varying")
        (_, done), _ = lax.scan(tick, start, jnp.arange(microbatches + stages - 1))
        return lax.psum(jnp.where(stage == stages - 1, done, 0), "stage").reshape(x.shape)

    def run(w: Weights, tokens: Any) -> list[float]:
        spec = {name: P("stage") for name in ("qkv", "out", "up", "down")} | {"table": P()}
        shardings = {name: NamedSharding(mesh, each) for name, each in spec.items()}
        layers = {name: P("stage") for name in ("qkv", "out", "up", "down")}
        through = jax.shard_map(pipeline, mesh=mesh, in_specs=(P("data"), layers), out_specs=P("data"))
        tokens = jax.device_put(tokens, NamedSharding(mesh, P("data")))
        return train(through, jax.device_put(w, shardings), tokens, shardings)

    return stages, microbatches * mesh.shape["data"], run


WAYS = {"2d": two_dimensional, "pipeline": pipelined, "fsdp": fully_sharded}


def main(names: list[str]) -> int:
    devices = np.array(jax.devices())
    table = Table("way", "cores", "layers", "losses", "on one CPU device", "right")
    wrong = 0
    for name in names or list(WAYS):
        layers, batch, run = WAYS[name](devices)
        w = weights(layers)
        tokens = np.random.RandomState(1).randint(0, VOCABULARY, (batch, LENGTH + 1)).astype(np.int32)
        losses = run(w, tokens)
        with jax.default_device(jax.devices("cpu")[0]):
            expected = train(stack, jax.tree.map(jnp.asarray, w), tokens)
        right = bool(np.allclose(losses, expected, rtol=TOLERANCE)) and losses[-1] < losses[0]
        wrong += not right
        words = (" ".join(f"{value:.3f}" for value in values) for values in (losses, expected))
        table.add_row(name, str(len(devices)), str(layers), *words, "yes" if right else "[red]no[/]")
    Console().print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
