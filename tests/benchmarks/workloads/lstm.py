"""A training step of an LSTM: a scan of 64 steps, width 256, global batch 256, data-parallel, SGD."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LENGTH, WIDTH, BATCH = 64, 256, 256


def loss(w: Any, x: Any, y: Any) -> Any:
    """Mean square error of the last hidden state. x: (length, batch, width)."""

    def cell(carry: Any, x: Any) -> Any:
        hidden, memory = carry
        gates = x @ w["input"] + hidden @ w["hidden"] + w["bias"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(memory), memory), None

    zero = jnp.zeros(x.shape[1:], x.dtype)
    (hidden, _), _ = lax.scan(cell, (zero, zero), x)
    return jnp.square(hidden - y).mean()


def step(w: Any, x: Any, y: Any) -> Any:
    value, gradient = jax.value_and_grad(loss)(w, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, w, gradient), value


def setup() -> tuple[Any, Any, Any]:
    """The jitted step, its state and its data."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    random = np.random.RandomState(0)
    shapes = {"input": (WIDTH, 4 * WIDTH), "hidden": (WIDTH, 4 * WIDTH), "bias": (4 * WIDTH,)}
    w = {name: (random.randn(*shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}
    x = random.randn(LENGTH, BATCH, WIDTH).astype(np.float32)
    y = random.randn(BATCH, WIDTH).astype(np.float32)
    return (
        jax.jit(step, donate_argnums=0),
        jax.device_put(w, NamedSharding(mesh, P())),
        (
            jax.device_put(x, NamedSharding(mesh, P(None, "batch"))),
            jax.device_put(y, NamedSharding(mesh, P("batch"))),
        ),
    )
