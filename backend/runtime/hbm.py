"""How full is the HBM of each core? Accounted to the byte, in padded tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backend.errors import ResourceExhausted

_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def size_text(size_bytes: int) -> str:
    """A size as the TPU runtime prints it: 1.50G, 12.00M, 512B."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f}{name}"
    return f"{size_bytes}B"


@dataclass
class CoreHbm:
    """One core's HBM. ``limit_bytes`` is what programs and buffers may use."""

    core: int
    limit_bytes: int
    bytes_in_use: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    largest_bytes: int = 0

    def require(self, size_bytes: int, purpose: str) -> None:
        """Raise ResourceExhausted unless ``size_bytes`` more fit, and count them in the peak."""
        if self.bytes_in_use + size_bytes > self.limit_bytes:
            free = self.limit_bytes - self.bytes_in_use
            raise ResourceExhausted(
                f"Attempting to allocate {size_text(size_bytes)} for {purpose} on core {self.core}. That was not "
                f"possible. There are {size_text(free)} free of {size_text(self.limit_bytes)} of HBM."
            )
        self.peak_bytes = max(self.peak_bytes, self.bytes_in_use + size_bytes)

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Raises ResourceExhausted if it does not fit."""
        self.require(size_bytes, purpose)
        self.bytes_in_use += size_bytes
        self.allocations += 1
        self.largest_bytes = max(self.largest_bytes, size_bytes)

    def free(self, size_bytes: int) -> None:
        self.bytes_in_use -= size_bytes


@contextlib.contextmanager
def holding(cores: Sequence[CoreHbm], size_bytes: int) -> Iterator[None]:
    """Count what a running program has on each core: its donated arguments, temporaries and results to be."""
    for core in cores:
        core.bytes_in_use += size_bytes
    try:
        yield
    finally:
        for core in cores:
            core.bytes_in_use -= size_bytes
