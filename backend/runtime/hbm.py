"""How full is the HBM of each core? Accounted to the byte, in padded tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backend.compiler.shortage import size_text
from backend.errors import ResourceExhausted


@dataclass
class CoreHbm:
    """One core's HBM, at ``place`` on the torus (0x0x0_HBM0). ``limit_bytes`` is what programs and buffers may use.

    Refusals are in the words of the TPU runtime, with what the memory is for.
    """

    core: int
    limit_bytes: int
    place: str = ""
    bytes_in_use: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    largest_bytes: int = 0

    def require(self, size_bytes: int, purpose: str) -> None:
        """Raise ResourceExhausted unless a program finds ``size_bytes`` more, and count them in the peak."""
        if not self._fits(size_bytes):
            free = size_text(self.limit_bytes - self.bytes_in_use)
            raise ResourceExhausted(
                f"Error loading program: Attempting to reserve {size_text(size_bytes)} at the bottom of memory. "
                f"That was not possible. There are {free} free, 0B reserved, and {free} reservable.; ({self.place}), "
                f"for {purpose} on core {self.core}"
            )

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Raises ResourceExhausted if it does not fit."""
        if not self._fits(size_bytes):
            free = size_text(self.limit_bytes - self.bytes_in_use)
            raise ResourceExhausted(
                f"Error allocating device buffer: Attempting to allocate {size_text(size_bytes)}. "
                f"That was not possible. There are {free} free.; ({self.place}), "
                f"for {purpose} on core {self.core}"
            )
        self.bytes_in_use += size_bytes
        self.allocations += 1
        self.largest_bytes = max(self.largest_bytes, size_bytes)

    def _fits(self, size_bytes: int) -> bool:
        """Whether there are ``size_bytes`` more; counted in the peak if there are."""
        fits = self.bytes_in_use + size_bytes <= self.limit_bytes
        if fits:
            self.peak_bytes = max(self.peak_bytes, self.bytes_in_use + size_bytes)
        return fits

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
