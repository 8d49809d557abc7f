"""Where does the memory of results come from? From buffers that were given back, by size."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_SMALLEST = 1 << 16


class Pool:
    """Keeps freed buffers so that a steady step touches no new page. Holds at most ``limit_bytes``. Any thread."""

    def __init__(self, limit_bytes: int = 4 << 30) -> None:
        self._free: defaultdict[int, list[Array]] = defaultdict(list)
        self._held_bytes = 0
        self._lock = threading.Lock()
        self._limit_bytes = limit_bytes

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised C-contiguous array."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes >= _SMALLEST:
            with self._lock:
                if self._free[nbytes]:
                    self._held_bytes -= nbytes
                    return self._free[nbytes].pop().view(dtype).reshape(shape)
        return np.empty(shape, dtype)

    def give(self, array: Array) -> None:
        """Take ``array``'s memory; the caller no longer uses it. Views of somebody else's memory are left alone."""
        if array.nbytes < _SMALLEST or not array.flags.c_contiguous or not array.flags.writeable:
            return
        with self._lock:
            if self._held_bytes + array.nbytes <= self._limit_bytes:
                self._free[array.nbytes].append(array.reshape(-1).view(np.uint8))
                self._held_bytes += array.nbytes
