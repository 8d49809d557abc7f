"""How does JAX get our devices? The plugin registers as platform ``tpu``, in the place of libtpu."""

from __future__ import annotations

import atexit
import contextlib
from typing import Any

import jax
from jax._src import xla_bridge

from backend.driver import client, table
from backend.driver.pallas import interpret_kernels
from backend.driver.replicas import follow_replicas

_PRIORITY = 500
_EXIT_SECONDS = 5.0
_SHARED_EXIT_SECONDS = 600.0
"""Other processes may still have to come to the last launches; the slice fails those to which somebody doesn't come."""


def register() -> None:
    """Make the slice's devices JAX's default ones. Nothing is connected before JAX asks for devices."""
    api = table.build()
    xla_bridge._nonexperimental_plugins.add(client.PLATFORM)
    xla_bridge.register_plugin(client.PLATFORM, priority=_PRIORITY, c_api=table.capsule(api))
    interpret_kernels()
    follow_replicas()
    atexit.register(_leave, api)


def _leave(api: Any) -> None:
    """Finish what has effects, then cut jaxlib off from Python."""
    if client.clients:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # JAX itself is about to say what failed
            jax.effects_barrier()
    for each in client.clients:
        each.session.drain(_EXIT_SECONDS if each.session.processes == 1 else _SHARED_EXIT_SECONDS)
        each.session.close()
    table.disconnect(api)
