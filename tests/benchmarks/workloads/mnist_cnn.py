"""A training step of the MNIST CNN: global batch 1024, data-parallel over all devices, SGD with momentum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SHAPES = {"c1": (3, 3, 1, 32), "c2": (3, 3, 32, 64), "d1": (9216, 128), "d2": (128, 10)}
BATCH = 1024


def conv(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def loss(w: Any, x: Any, y: Any) -> Any:
    x = jax.nn.relu(conv(x, w["c1"]) + w["c1_bias"])
    x = jax.nn.relu(conv(x, w["c2"]) + w["c2_bias"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ w["d1"] + w["d1_bias"])
    logits = x @ w["d2"] + w["d2_bias"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


def step(state: Any, x: Any, y: Any) -> Any:
    w, momentum = state
    value, gradient = jax.value_and_grad(loss)(w, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return (jax.tree.map(lambda p, m: p - 0.01 * m, w, momentum), momentum), value


def setup() -> tuple[Any, Any, Any]:
    """The jitted step, its state and its data."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    random = np.random.RandomState(0)
    weights = {name: (random.randn(*shape) * 0.05).astype(np.float32) for name, shape in SHAPES.items()}
    weights |= {f"{name}_bias": np.zeros(shape[-1], np.float32) for name, shape in SHAPES.items()}
    images = random.rand(BATCH, 28, 28, 1).astype(np.float32)
    labels = random.randint(0, 10, BATCH).astype(np.int32)
    state = jax.device_put((weights, jax.tree.map(np.zeros_like, weights)), NamedSharding(mesh, P()))
    return jax.jit(step, donate_argnums=0), state, jax.device_put((images, labels), NamedSharding(mesh, P("batch")))
