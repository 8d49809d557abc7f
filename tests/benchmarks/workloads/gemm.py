"""A product of two 4096 x 4096 bfloat16 matrices with float32 sums, on one core."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SIZE = 4096


def product(_: Any, a: Any, b: Any) -> Any:
    return (), lax.dot(a, b, preferred_element_type=jnp.float32)


def setup() -> tuple[Any, Any, Any]:
    """The jitted product, no state, and its data."""
    random = np.random.RandomState(0)
    a, b = (random.rand(SIZE, SIZE).astype(jnp.bfloat16) for _ in range(2))
    return jax.jit(product), (), (jax.device_put(a), jax.device_put(b))
