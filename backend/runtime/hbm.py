"""How full is the HBM of each core? Accounted to the byte, in padded tiles."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from backend.compiler.shortage import size_text
from backend.errors import ResourceExhausted

Counts = np.ndarray[Any, np.dtype[np.int64]]


class Cores:
    """Some of a slice's cores, in their order: an index of arrays that have one element for each core of the slice."""

    __slots__ = ("ids", "index", "only", "views")

    def __init__(self, ids: Sequence[int], arrays: Sequence[Counts]) -> None:
        self.ids = list(ids)
        first, last = self.ids[0], self.ids[-1]
        self.only = first if len(self.ids) == 1 else None
        """The core if there is one: plain numbers are counted faster than arrays of one."""
        adjacent = self.ids == list(range(first, last + 1))
        self.index: slice | Counts = slice(first, last + 1) if adjacent else np.array(self.ids, np.int64)
        self.views = [array[self.index] for array in arrays] if adjacent else None
        """The parts of the arrays, if they are no copies; made once, as a launch needs them many times."""


class Hbm:
    """The HBM of all cores of a slice. ``limit_bytes`` is what programs and buffers may use of one core's.

    int64[cores] arrays: ``in_use`` and ``peak`` bytes, ``allocations`` so far, bytes of the ``largest``.
    Refusals are in the words of the TPU runtime, with what the memory is for. Any thread may call.
    """

    def __init__(self, places: Sequence[str], limit_bytes: int) -> None:
        """``places`` are the names of the cores' memories: "0x0x0_HBM0"."""
        self.limit_bytes = limit_bytes
        self.in_use, self.peak, self.allocations, self.largest = (np.zeros(len(places), np.int64) for _ in range(4))
        self._places = places
        self._lock = threading.Lock()
        self._single: dict[int, Cores] = {}

    def __len__(self) -> int:
        return len(self._places)

    def cores(self, ids: Sequence[int]) -> Cores:
        """Some cores."""
        if len(ids) == 1 and (known := self._single.get(ids[0])) is not None:
            return known
        cores = Cores(ids, (self.in_use, self.peak, self.allocations, self.largest))
        if len(ids) == 1:
            self._single[ids[0]] = cores
        return cores

    def require(self, cores: Cores, size_bytes: int, purpose: str) -> None:
        """Raise ResourceExhausted unless a program finds ``size_bytes`` more on each core; count them in the peak."""
        with self._lock:
            full = self._first_full(cores, size_bytes)
        if full is not None:
            core, free = full
            attempt = f"Error loading program: Attempting to reserve {size_text(size_bytes)} at the bottom of memory"
            raise self._refusal(core, attempt, f"{free} free, 0B reserved, and {free} reservable", purpose)

    def allocate(self, cores: Cores, size_bytes: int, purpose: str) -> None:
        """Take ``size_bytes`` on each core. Raises ResourceExhausted, and takes nothing, if it does not fit on one."""
        with self._lock:
            full = self._first_full(cores, size_bytes)
            if full is None:
                self._take(cores, size_bytes, 1, size_bytes)
        if full is not None:
            core, free = full
            attempt = f"Error allocating device buffer: Attempting to allocate {size_text(size_bytes)}"
            raise self._refusal(core, attempt, f"{free} free", purpose)

    def hold(self, cores: Cores, size_bytes: int) -> None:
        """Count what a running program has on each core: its donated arguments, temporaries and results to be."""
        with self._lock:
            self._add(cores, size_bytes)

    def settle(self, cores: Cores, held_bytes: int, result_bytes: Sequence[int]) -> None:
        """A program that held memory is over; it leaves results of these sizes, for which there was room."""
        with self._lock:
            self._take(cores, sum(result_bytes) - held_bytes, len(result_bytes), max(result_bytes, default=0))

    def free(self, cores: Cores, size_bytes: int) -> None:
        with self._lock:
            self._add(cores, -size_bytes)

    def _add(self, cores: Cores, size_bytes: int) -> None:
        if cores.only is not None:
            self.in_use[cores.only] += size_bytes
        elif cores.views is not None:
            cores.views[0] += size_bytes
        else:
            self.in_use[cores.index] += size_bytes

    def _take(self, cores: Cores, size_bytes: int, count: int, largest_bytes: int) -> None:
        self._add(cores, size_bytes)
        if cores.only is not None:
            self.allocations[cores.only] += count
            self.largest[cores.only] = max(self.largest.item(cores.only), largest_bytes)
        elif cores.views is not None:
            _, _, allocations, largest = cores.views
            allocations += count
            np.maximum(largest, largest_bytes, out=largest)
        else:
            self.allocations[cores.index] += count
            self.largest[cores.index] = np.maximum(self.largest[cores.index], largest_bytes)

    def _first_full(self, cores: Cores, size_bytes: int) -> tuple[int, str] | None:
        """A core that has no ``size_bytes`` more, and what it has; else they are counted in the peak."""
        if (only := cores.only) is not None:
            needed = self.in_use.item(only) + size_bytes
            if needed > self.limit_bytes:
                return only, size_text(self.limit_bytes - needed + size_bytes)
            if needed > self.peak.item(only):
                self.peak[only] = needed
            return None
        in_use, peak, *_ = cores.views or (self.in_use[cores.index], self.peak[cores.index])
        wanted = in_use + size_bytes
        worst = int(wanted.argmax())
        if wanted[worst] <= self.limit_bytes:
            np.maximum(peak, wanted, out=peak)
            if cores.views is None:
                self.peak[cores.index] = peak
            return None
        core = cores.ids[worst]
        return core, size_text(self.limit_bytes - int(self.in_use[core]))

    def _refusal(self, core: int, attempt: str, left: str, purpose: str) -> ResourceExhausted:
        return ResourceExhausted(
            f"{attempt}. That was not possible. There are {left}.; ({self._places[core]}), for {purpose} on core {core}"
        )
