"""How full is the HBM of each core? Accounted to the byte, in padded tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from backend.compiler.shortage import size_text
from backend.errors import ResourceExhausted

Cores = slice | np.ndarray[Any, np.dtype[np.intp]]
"""Some of a slice's cores, as an index of an array that has one element for each."""


class Hbm:
    """The HBM of all cores of a slice. ``limit_bytes`` is what programs and buffers may use of one core's.

    int64[cores] arrays: ``in_use`` and ``peak`` bytes, ``allocations`` so far, bytes of the ``largest``.
    Refusals are in the words of the TPU runtime, with what the memory is for.
    """

    def __init__(self, places: Sequence[str], limit_bytes: int) -> None:
        """``places`` are the names of the cores' memories: "0x0x0_HBM0"."""
        self.limit_bytes = limit_bytes
        self.in_use = np.zeros(len(places), np.int64)
        self.peak = np.zeros(len(places), np.int64)
        self.allocations = np.zeros(len(places), np.int64)
        self.largest = np.zeros(len(places), np.int64)
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def cores(self, ids: Sequence[int]) -> Cores:
        """The index of some cores, in their order."""
        first = ids[0]
        if list(ids) == list(range(first, first + len(ids))):
            return slice(first, first + len(ids))
        return np.array(ids, np.intp)

    def require(self, cores: Cores, size_bytes: int, purpose: str) -> None:
        """Raise ResourceExhausted unless a program finds ``size_bytes`` more on each core; count them in the peak."""
        if full := self._first_full(cores, size_bytes):
            core, free = full
            attempt = f"Error loading program: Attempting to reserve {size_text(size_bytes)} at the bottom of memory"
            raise self._refusal(core, attempt, f"{free} free, 0B reserved, and {free} reservable", purpose)

    def allocate(self, cores: Cores, size_bytes: int, purpose: str) -> None:
        """Take ``size_bytes`` on each core. Raises ResourceExhausted, and takes nothing, if it does not fit on one."""
        if full := self._first_full(cores, size_bytes):
            core, free = full
            attempt = f"Error allocating device buffer: Attempting to allocate {size_text(size_bytes)}"
            raise self._refusal(core, attempt, f"{free} free", purpose)
        self.in_use[cores] += size_bytes
        self.allocations[cores] += 1
        self.largest[cores] = np.maximum(self.largest[cores], size_bytes)

    def free(self, cores: Cores, size_bytes: int) -> None:
        self.in_use[cores] -= size_bytes

    @contextlib.contextmanager
    def holding(self, cores: Cores, size_bytes: int) -> Iterator[None]:
        """Count what a running program has on each core: its donated arguments, temporaries and results to be."""
        self.in_use[cores] += size_bytes
        try:
            yield
        finally:
            self.in_use[cores] -= size_bytes

    def _first_full(self, cores: Cores, size_bytes: int) -> tuple[int, str] | None:
        """A core that has no ``size_bytes`` more, and what it has; else they are counted in the peak."""
        wanted = self.in_use[cores] + size_bytes
        worst = int(wanted.argmax())
        if wanted[worst] <= self.limit_bytes:
            self.peak[cores] = np.maximum(self.peak[cores], wanted)
            return None
        core = int(np.arange(len(self))[cores][worst])
        return core, size_text(self.limit_bytes - int(self.in_use[core]))

    def _refusal(self, core: int, attempt: str, left: str, purpose: str) -> ResourceExhausted:
        return ResourceExhausted(
            f"{attempt}. That was not possible. There are {left}.; ({self._places[core]}), for {purpose} on core {core}"
        )
