"""Where does the memory of results come from? From buffers that were given back, by size."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_SMALLEST = 1 << 16


class Pool:
    """Keeps freed buffers so that a steady step touches no new page. Holds at most ``limit_bytes``. Any thread.

    Only buffers of a size that was asked for again after one was given back are kept: what comes once goes back to the
    system. When the pool is full, buffers of the size that was least recently asked for or given go first.
    """

    def __init__(self, limit_bytes: int = 4 << 30) -> None:
        self._free: OrderedDict[int, list[Array]] = OrderedDict()
        self._given: deque[Array] = deque()
        self._seen: set[int] = set()
        self._recurring: set[int] = set()
        self._held_bytes = 0
        self._lock = threading.Lock()
        self._limit_bytes = limit_bytes

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised C-contiguous array."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes >= _SMALLEST:
            with self._lock:
                self._sort_in()
                if nbytes in self._seen:
                    self._recurring.add(nbytes)
                if nbytes in self._free:
                    self._free.move_to_end(nbytes)
                    return self._pop(nbytes).view(dtype).reshape(shape)
        return np.empty(shape, dtype)

    def give(self, array: Array) -> None:
        """Take ``array``'s memory; the caller no longer uses it. Views of somebody else's memory are left alone.

        Never waits: destructors call it, and the garbage collector runs them anywhere, even inside ``take``.
        """
        if array.nbytes < _SMALLEST or not array.flags.c_contiguous or not array.flags.writeable:
            return
        self._given.append(array.reshape(-1).view(np.uint8))
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def _sort_in(self) -> None:
        """Keep what was given, with the lock held."""
        while self._given:
            array = self._given.popleft()
            self._seen.add(array.nbytes)
            if array.nbytes > self._limit_bytes or array.nbytes not in self._recurring:
                continue
            self._free.setdefault(array.nbytes, []).append(array)
            self._free.move_to_end(array.nbytes)
            self._held_bytes += array.nbytes
            while self._held_bytes > self._limit_bytes:
                self._pop(next(iter(self._free)))

    def _pop(self, nbytes: int) -> Array:
        arrays = self._free[nbytes]
        self._held_bytes -= nbytes
        array = arrays.pop()
        if not arrays:
            del self._free[nbytes]
        return array
