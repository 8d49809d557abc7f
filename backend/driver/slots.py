"""Which Python function stands in which slot of the API's function table?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Implementation = Callable[[Any], None]
"""Takes the argument struct and fills in its results. Raises TpuError."""

IMPLEMENTATIONS: dict[str, Implementation] = {}


def slot(name: str) -> Callable[[Implementation], Implementation]:
    """Put a function in the slot called ``name``."""

    def register(function: Implementation) -> Implementation:
        IMPLEMENTATIONS[name] = function
        return function

    return register
