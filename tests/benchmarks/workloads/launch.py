"""A jitted ``x + 1`` on an array that lies on all cores, replicated: what a launch costs, and little else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

CALLS = 100


def setup() -> tuple[Any, Any, Any]:
    """The function, no state, and its data, which a program has made."""
    everywhere = NamedSharding(Mesh(np.array(jax.devices()), "x"), P())
    return jax.jit(lambda _, x: ((), x + 1)), (), (jax.jit(lambda: jnp.ones(8), out_shardings=everywhere)(),)
