"""What of the device side works on this operating system? Sealed memory files and peer credentials need Linux."""

from __future__ import annotations

import sys


def refusal() -> str | None:
    """Why slices cannot run or be used here; None on Linux."""
    if sys.platform == "linux":
        return None
    return f"the slice runtime needs Linux (this is {sys.platform}); use a Linux machine, a container or WSL"
