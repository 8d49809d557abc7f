"""How does C++ refer to our objects? By the address of a cell; dead ones are swept up when Python runs anyway."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver.native import CELL_BYTES, IMMORTAL_OFFSET, LINK_OFFSET, exhume

_SLAB_CELLS = 4096

_objects: dict[int, Any] = {}
_free: list[int] = []
_slabs: list[Any] = []

resolve = _objects.__getitem__
"""The object behind a handle."""


def new(obj: Any, functions: int = 0, *, immortal: bool = False) -> int:
    """A handle of ``obj``, whose ``dropped()`` is called some time after C++ has destroyed it.

    ``functions`` is the address of the function table that C++ expects at the front, if it expects one.
    """
    while True:
        try:
            cell = _free.pop()
            break
        except IndexError:
            _grow()
    if functions or immortal:
        ctypes.c_uint64.from_address(cell).value = functions
        ctypes.c_uint64.from_address(cell + IMMORTAL_OFFSET).value = immortal
    _objects[cell] = obj
    return cell


def sweep() -> None:
    """Drop the objects that C++ has destroyed since the last time."""
    cell = exhume()
    while cell:
        following = ctypes.c_uint64.from_address(cell + LINK_OFFSET).value
        obj = _objects.pop(cell)
        ctypes.c_uint64.from_address(cell).value = 0
        _free.append(cell)
        obj.dropped()
        cell = following


def discard(cell: int) -> None:
    """Forget an object that was never C++'s, or that C++ has given up."""
    del _objects[cell]
    ctypes.c_uint64.from_address(cell).value = 0
    _free.append(cell)


def _grow() -> None:
    slab = ctypes.create_string_buffer(CELL_BYTES * _SLAB_CELLS + 16)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(slab))  # destructors write to it until the end of the process
    _slabs.append(slab)
    start = (ctypes.addressof(slab) + 15) & ~15
    _free.extend(range(start, start + CELL_BYTES * _SLAB_CELLS, CELL_BYTES))


class Droppable:
    """An object with nothing to do when C++ has destroyed it."""

    __slots__ = ()

    def dropped(self) -> None:
        return
