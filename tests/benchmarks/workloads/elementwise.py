"""A chain of five elementwise operations on 32 M float32, sharded over all devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZE = 32 << 20


def chain(_: Any, x: Any) -> Any:
    return (), jnp.sqrt(jnp.abs(x * 2.0 + 1.0)) - x


def setup() -> tuple[Any, Any, Any]:
    """The jitted chain, no state, and its data."""
    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = np.random.RandomState(0).rand(SIZE).astype(np.float32)
    return jax.jit(chain), (), (jax.device_put(x, NamedSharding(mesh, P("x"))),)
