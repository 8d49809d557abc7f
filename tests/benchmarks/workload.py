"""One side of a benchmark: a process that runs a workload once for each line on its standard input.

``python workload.py NAME``: prints "ready" and the number of devices, then the seconds of each run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SMALL_CALLS = 1000


def mnist_step() -> Callable[[], float]:
    """A training step of the MNIST CNN, global batch 1024, data-parallel over all devices, SGD with momentum."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    random = np.random.RandomState(0)
    shapes = {"c1": (3, 3, 1, 32), "c2": (3, 3, 32, 64), "d1": (9216, 128), "d2": (128, 10)}
    weights = {name: (random.randn(*shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}
    weights |= {f"{name}_bias": np.zeros(shape[-1], np.float32) for name, shape in shapes.items()}
    images = random.rand(1024, 28, 28, 1).astype(np.float32)
    labels = random.randint(0, 10, 1024).astype(np.int32)

    def conv(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(w: Any) -> Any:
        x, y = batch
        x = jax.nn.relu(conv(x, w["c1"]) + w["c1_bias"])
        x = jax.nn.relu(conv(x, w["c2"]) + w["c2_bias"])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(x.shape[0], -1)
        x = jax.nn.relu(x @ w["d1"] + w["d1_bias"])
        logits = x @ w["d2"] + w["d2_bias"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def step(w: Any, momentum: Any, x: Any, y: Any) -> Any:
        nonlocal batch
        batch = (x, y)
        value, gradient = jax.value_and_grad(loss)(w)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return jax.tree.map(lambda p, m: p - 0.01 * m, w, momentum), momentum, value

    batch: Any = None
    compiled = jax.jit(step, donate_argnums=(0, 1))
    state: Any = jax.device_put((weights, jax.tree.map(np.zeros_like, weights)), NamedSharding(mesh, P()))
    data = jax.device_put((images, labels), NamedSharding(mesh, P("batch")))

    def run() -> float:
        nonlocal state
        start = time.perf_counter()
        *state, value = compiled(*state, *data)
        value.block_until_ready()
        return time.perf_counter() - start

    return run


def small_blocking() -> Callable[[], float]:
    """A jitted ``x + 1`` on 8 floats, waited for: seconds a call, over 1000 calls."""
    function, x = jax.jit(lambda x: x + 1), jnp.ones(8)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(SMALL_CALLS):
            function(x).block_until_ready()
        return (time.perf_counter() - start) / SMALL_CALLS

    return run


def small_pipelined() -> Callable[[], float]:
    """The same, only the last call waited for: seconds a call, over 1000 calls."""
    function, x = jax.jit(lambda x: x + 1), jnp.ones(8)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(SMALL_CALLS):
            y = function(x)
        y.block_until_ready()
        return (time.perf_counter() - start) / SMALL_CALLS

    return run


WORKLOADS = {"mnist-step": mnist_step, "small-blocking": small_blocking, "small-pipelined": small_pipelined}


def main(name: str) -> None:
    """Set up, warm up, then one run a line."""
    run = WORKLOADS[name]()
    run()
    run()
    print("ready", jax.devices()[0].platform, len(jax.devices()), flush=True)
    for _ in sys.stdin:
        print(run(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
