"""The driver: a PJRT plugin that gives JAX the cores of a slice as its devices.

JAX finds it by the entry point group ``jax_plugins``. It does nothing unless TPUCTL_SLICE names a slice.
"""

from __future__ import annotations

import os

from backend.linux import refusal


def initialize() -> None:
    """Called by JAX when it looks for backends."""
    if not os.environ.get("TPUCTL_SLICE"):
        return
    if message := refusal():
        from backend.driver.refusal import register_refusal

        register_refusal(message)
    else:
        from backend.driver.plugin import register

        register()
