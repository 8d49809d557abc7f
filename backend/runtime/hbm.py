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
            free = self._free_text()
            attempt = f"Error loading program: Attempting to reserve {size_text(size_bytes)} at the bottom of memory"
            raise self._refusal(attempt, f"{free} free, 0B reserved, and {free} reservable", purpose)

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Raises ResourceExhausted if it does not fit."""
        if not self._fits(size_bytes):
            attempt = f"Error allocating device buffer: Attempting to allocate {size_text(size_bytes)}"
            raise self._refusal(attempt, f"{self._free_text()} free", purpose)
        self.bytes_in_use += size_bytes
        self.allocations += 1
        self.largest_bytes = max(self.largest_bytes, size_bytes)

    def _free_text(self) -> str:
        return size_text(self.limit_bytes - self.bytes_in_use)

    def _refusal(self, attempt: str, left: str, purpose: str) -> ResourceExhausted:
        return ResourceExhausted(
            f"{attempt}. That was not possible. There are {left}.; ({self.place}), for {purpose} on core {self.core}"
        )

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
