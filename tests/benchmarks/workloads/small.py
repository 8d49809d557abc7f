"""A jitted ``x + 1`` on 8 floats."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def setup() -> tuple[Any, Any, Any]:
    """The function, no state, and its data."""
    return jax.jit(lambda _, x: ((), x + 1)), (), (jnp.ones(8),)
