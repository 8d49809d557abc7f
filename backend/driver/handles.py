"""How does C++ refer to our objects? By the address of a cell; dead ones are swept up when Python runs anyway."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver.cells import CELL_WORDS, COLUMN, FIRST_FACT, FUNCTIONS, IMMORTAL, LINK
from backend.driver.native import exhume

_SLAB_CELLS = 4096
_WORD_BYTES = 8

Cell = memoryview  # of 64-bit words
_cells: dict[int, Cell] = {}


class _Objects(dict[int, Any]):
    """The objects behind cells. A member of a column is made of the column when it is asked for."""

    def __missing__(self, address: int) -> Any:
        return self[ctypes.c_uint64.from_address(address + COLUMN * _WORD_BYTES).value].member(address)


_objects = _Objects()
_free: list[int] = []

resolve = _objects.__getitem__
"""The object behind a handle."""


def new(obj: Any, functions: int = 0, *, immortal: bool = False, facts: tuple[int, ...] = ()) -> int:
    """A handle of ``obj``, whose ``dropped()`` is called some time after C++ has destroyed it.

    ``functions`` is the address of the function table that C++ expects at the front, if it expects one; ``facts`` is
    what native.FACTS tells of such an object.
    """
    while True:
        try:
            cell = _free.pop()
            break
        except IndexError:
            _grow()
    if functions or immortal or facts:
        words = _cells[cell]
        words[FUNCTIONS], words[IMMORTAL], words[COLUMN] = functions, immortal, 0
        for index, fact in enumerate(facts, FIRST_FACT):
            words[index] = fact
    _objects[cell] = obj
    return cell


def words(cell: int) -> Cell:
    """A handle's cell, to change a fact in."""
    return _cells[cell]


def sweep() -> None:
    """Drop the objects that C++ has destroyed since the last time."""
    cell = exhume()
    while cell:
        following = _cells[cell][LINK]
        discard(cell).dropped()
        cell = following


def discard(cell: int) -> Any:
    """Forget an object that was never C++'s, or that C++ has given up; it is returned."""
    obj = _objects.pop(cell)
    _cells[cell][FUNCTIONS] = 0
    _free.append(cell)
    return obj


def _grow() -> None:
    cell_bytes = CELL_WORDS * _WORD_BYTES
    slab = ctypes.create_string_buffer(cell_bytes * _SLAB_CELLS + 16)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(slab))  # destructors write to it until the end of the process
    skipped = -ctypes.addressof(slab) % 16
    start = ctypes.addressof(slab) + skipped
    memory = memoryview(slab).cast("B")[skipped : skipped + cell_bytes * _SLAB_CELLS].cast("Q")
    for index in range(_SLAB_CELLS):
        _cells[start + index * cell_bytes] = memory[index * CELL_WORDS : (index + 1) * CELL_WORDS]
    _free.extend(range(start, start + cell_bytes * _SLAB_CELLS, cell_bytes))


class Droppable:
    """An object with nothing to do when C++ has destroyed it."""

    __slots__ = ()

    def dropped(self) -> None:
        return
