"""Train with a sharded state: train_orbax.py FOLDER FIRST LAST. Go on from what was saved at step FIRST, if not 0.

Every third step is saved with Orbax. Written as for a TPU pod: nothing in it knows of tpuctl.
"""

import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.distributed.initialize()

folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
mesh = Mesh(np.array(jax.devices()).reshape(-1, 4), ("data", "model"))
rows, columns, whole = (NamedSharding(mesh, spec) for spec in (P("data"), P(None, "model"), P()))


def batch(step):
    full = np.random.default_rng(step).standard_normal((64, 32), np.float32)
    return jax.make_array_from_callback(full.shape, rows, lambda part: full[part])


def fresh():
    full = np.random.default_rng(0).standard_normal((32, 64), np.float32) / 8
    return jax.make_array_from_callback(full.shape, columns, lambda part: full[part])


optimizer = optax.adam(1e-2)


@jax.jit
def train(weights, moments, inputs):
    def loss(weights):
        return jnp.mean((jnp.tanh(inputs @ weights) @ weights.T - inputs) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    updates, moments = optimizer.update(gradient, moments, weights)
    return optax.apply_updates(weights, updates), moments, value


weights = fresh()
shapes = jax.eval_shape(optimizer.init, weights)
places = jax.tree.map(lambda leaf: columns if leaf.ndim else whole, shapes)
state = {"weights": weights, "moments": jax.jit(optimizer.init, out_shardings=places)(weights)}
with ocp.CheckpointManager(folder) as manager:
    if first:
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
        state = manager.restore(first, args=ocp.args.StandardRestore(like))
    for step in range(first, last):
        state["weights"], state["moments"], loss = train(state["weights"], state["moments"], batch(step))
        print(step, float(loss).hex(), flush=True)
        if (step + 1) % 3 == 0 and step + 1 < last:
            manager.save(step + 1, args=ocp.args.StandardSave(state))
mine = [np.asarray(shard.data).tobytes() for leaf in jax.tree.leaves(state) for shard in leaf.addressable_shards]
print("state", hashlib.sha256(b"".join(mine)).hexdigest(), flush=True)
