"""Where do temporaries live? One stretch of virtual memory, laid out before anything runs.

Only one program runs at a time, so all programs of a slice share the arena: each lays out its temporaries from
offset 0. Pages are touched once and stay mapped: a steady step allocates nothing.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

_ALIGNMENT = 64
_RESERVED_BYTES = 1 << 38
_NORESERVE = 0x4000 if sys.platform == "linux" else 0

Array = np.ndarray[Any, np.dtype[Any]]


def strided(array: Array, shape: tuple[int, ...] | list[int], strides: tuple[int, ...] | list[int]) -> Array:
    """``array``'s memory as another shape and strides in bytes. numpy's own doesn't take all of ml_dtypes' types."""
    plain = array.view(f"u{array.dtype.itemsize}") if array.dtype.isbuiltin != 1 else array
    return np.lib.stride_tricks.as_strided(plain, shape, strides).view(array.dtype)


class Arena:
    """Reserves address space; memory is taken by the system when it is first written."""

    def __init__(self, reserved_bytes: int = _RESERVED_BYTES) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        self._memory = mmap.mmap(-1, reserved_bytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.nbytes = reserved_bytes

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A C-contiguous array at ``offset`` bytes."""
        return np.ndarray(shape, dtype, self._memory, offset)


class Layout:
    """Places the temporaries of one program: first fit over the free ranges, in program order."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = [(0, 1 << 62)]
        self._taken: dict[int, int] = {}
        self.peak_bytes = 0

    def allocate(self, nbytes: int) -> int:
        """Offset of a free range of ``nbytes`` bytes, now taken."""
        size = max(_ALIGNMENT, -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
        for index, (start, end) in enumerate(self._free):
            if end - start >= size:
                if end - start == size:
                    del self._free[index]
                else:
                    self._free[index] = (start + size, end)
                self._taken[start] = size
                self.peak_bytes = max(self.peak_bytes, start + size)
                return start
        raise AssertionError("the arena's address space is endless")

    def release(self, offset: int) -> None:
        """Give a range back; neighbours merge."""
        size = self._taken.pop(offset)
        self._free.append((offset, offset + size))
        self._free.sort()
        merged = [self._free[0]]
        for start, end in self._free[1:]:
            if start == merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        self._free = merged
