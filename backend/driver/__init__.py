"""The driver: a PJRT plugin that gives JAX the cores of a slice as its devices.

JAX finds it by the entry point group ``jax_plugins``. It does nothing unless TPUCTL_SLICE names a slice.
"""

from __future__ import annotations

import os


def initialize() -> None:
    """Called by JAX when it looks for backends."""
    if os.environ.get("TPUCTL_SLICE"):
        from backend.driver.plugin import register

        register()
