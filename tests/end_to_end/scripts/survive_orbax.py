"""Train for 40 steps; every fifth is saved with Orbax, and the last saved one is gone on from."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tpuctl import metrics

STEPS = 40
mesh = Mesh(np.array(jax.devices()), ("data",))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
optimizer = optax.adam(1e-2)


@jax.jit
def train(weights, moments, inputs):
    def loss(weights):
        return jnp.mean((jnp.tanh(inputs @ weights) @ weights.T - inputs) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    updates, moments = optimizer.update(gradient, moments, weights)
    return optax.apply_updates(weights, updates), moments, value


weights = jax.device_put(np.random.default_rng(0).standard_normal((32, 64), np.float32) / 8, whole)
state = {"weights": weights, "moments": jax.jit(optimizer.init, out_shardings=whole)(weights)}
with ocp.CheckpointManager(os.environ["TPUCTL_CHECKPOINT_DIR"]) as manager:
    first = manager.latest_step() or 0
    if first:
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
        state = manager.restore(first, args=ocp.args.StandardRestore(like))
    for step in range(first + 1, STEPS + 1):
        batch = jax.device_put(np.random.default_rng(step).standard_normal((64, 32), np.float32), rows)
        state["weights"], state["moments"], loss = train(state["weights"], state["moments"], batch)
        print(step, float(loss).hex(), flush=True)
        metrics.log(step=step, steps=STEPS, loss=loss)
        if step % 5 == 0:
            manager.save(step, args=ocp.args.StandardSave(state))
