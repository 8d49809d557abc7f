"""Which pages of a library does a process give back? Those that it has only read, when it is done with the library.

They stay in the system's page cache: those that are needed after all are mapped again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_ENTRY_BYTES = 8
_IS_THERE, _IS_OF_FILE = np.uint64(3 << 62), np.uint64(1 << 61)
"""In an entry of /proc/self/pagemap: the page is in memory or swapped out; it is the file's own, never written."""


def give_back(library: str) -> None:
    """Unmap the pages of the mapped file called ``library``. Nothing happens where that isn't known."""
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            for start, end in _read_only(library):
                if _is_unwritten(pagemap.fileno(), start, end):
                    _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
    except OSError:
        return


def _read_only(library: str) -> Iterator[tuple[int, int]]:
    """Addresses of the stretches of ``library`` that may not be written now."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, mode, *_, name = line.split(maxsplit=5)
        if mode in {"r--p", "r-xp"} and name.endswith(f"/{library}"):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)


def _is_unwritten(pagemap: int, start: int, end: int) -> bool:
    """Whether the pages are all as in the file; the loader writes to some before it makes them read-only."""
    first, count = start // mmap.PAGESIZE, (end - start) // mmap.PAGESIZE
    entries = np.frombuffer(os.pread(pagemap, count * _ENTRY_BYTES, first * _ENTRY_BYTES), np.uint64)
    there = entries[(entries & _IS_THERE) != 0]
    return bool((there & _IS_OF_FILE).all())
