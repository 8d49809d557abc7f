"""Where JAX finds the driver: the module that the entry point group ``jax_plugins`` names.

JAX loads it in every process of an installation, whatever folder that runs in: it imports nothing of ours, and does
nothing, unless TPUCTL_SLICE names a slice.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1]


def initialize() -> None:
    """Called by JAX when it looks for backends. Raises ImportError if another ``backend`` comes before tpuctl's."""
    if not os.environ.get("TPUCTL_SLICE"):
        return
    spec = find_spec("backend")
    found = Path(spec.origin).resolve() if spec and spec.origin else None
    if found not in (PACKAGES / "backend" / "__init__.py", None):
        raise ImportError(
            f'the package "backend" at {_place(found)} hides tpuctl\'s own\n'
            "rename it or start the script from another folder"
        )
    import_module("backend.driver").initialize()


def _place(found: Path | None) -> Path | None:
    return found.parent if found and found.name == "__init__.py" else found
