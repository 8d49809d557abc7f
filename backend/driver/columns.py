"""What is an array's memory on the slice? A column: one buffer on each of its devices, made by one operation.

C++ holds the buffers and their events one by one, by cells in a block of memory; machine code (native.py) counts them.
Python sees a column once when it is made, once when it is ready and once when it is dead, whatever its length.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.driver import cells, handles, native
from backend.driver.errors import error_handle
from backend.errors import TpuError
from backend.link.messages import POSITIONS

if TYPE_CHECKING:
    from backend.driver.session import Session

NO_NUMBER = 0
_BLOCK_WORDS = 1 << 14
_WORD_BYTES = 8
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Cell = ctypes.c_uint64 * cells.CELL_WORDS

_blocks: dict[int, list[int]] = defaultdict(list)
"""Free blocks by the number of buffers in them."""


class Column:
    """``count`` buffers of one type, ready after the operation ``sequence``; ``handle`` is its header's.

    ``number`` names it on the slice; NO_NUMBER is that of one that has events only. ``layout`` is the order of the
    dimensions from minor to major, None for row-major.
    """

    __slots__ = (
        "_blocks",
        "_cell",
        "_dims",
        "count",
        "dtype",
        "handle",
        "layout",
        "number",
        "released",
        "sequence",
        "session",
        "shape",
    )

    def __init__(
        self,
        session: Session,
        number: int,
        count: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        sequence: int,
        state: int = cells.PENDING,
        layout: tuple[int, ...] | None = None,
    ) -> None:
        self.session = session
        self.number = number
        self.count = count
        self.shape = shape
        self.dtype = dtype
        self.layout = layout
        self.sequence = sequence
        self.released = number == NO_NUMBER
        self._dims: Any = None
        self._blocks: list[tuple[int, int]] = []
        self.handle = handles.new(self, facts=(count, state, 0, count))
        self._cell = handles.words(self.handle)

    @property
    def state(self) -> int:
        return self._cell[cells.STATE]

    @property
    def dims(self) -> tuple[int, int]:
        """Address and length of the dimensions."""
        if self._dims is None:
            self._dims = (ctypes.c_int64 * max(1, len(self.shape)))(*self.shape)
        return ctypes.addressof(self._dims), len(self.shape)

    def fill(self, places: int, rows: int, index: int) -> None:
        """Make the buffers at ``places`` (device and memory of each) and put their handles at ``index`` of each row."""
        native.fill(self._new_block(), self.count, self.handle, places, rows, index, 0)

    def fill_events(self, places: int, row: int) -> None:
        """Put the events of a column without buffers in a row."""
        native.fill(self._new_block(), self.count, self.handle, places, row, 0, 1)

    def adopt(self, addresses: list[int]) -> None:
        """Take over buffers that were columns of their own, with all their memory."""
        for position, address in enumerate(addresses):
            buffer, event = _Cell.from_address(address), _Cell.from_address(address + ctypes.sizeof(_Cell))
            single: Column = handles.discard(buffer[cells.COLUMN])
            single.handle = 0
            self._blocks += single._blocks
            buffer[cells.COLUMN] = event[cells.COLUMN] = self.handle
            buffer[cells.POSITION] = event[cells.POSITION] = position

    def is_idle(self) -> bool:
        """Whether it is ready, and C++ holds nothing of it but its buffers."""
        return self.state == cells.READY and self._cell[cells.HELD] == self.count

    def member(self, address: int) -> Buffer | ColumnEvent:
        """The buffer or event with a cell."""
        cell = _Cell.from_address(address)
        return ColumnEvent(self, address) if cell[0] == cells.EVENT else Buffer(self, cell)

    def watch(self, when: Callable[[int, Callable[[TpuError | None], None]], None]) -> None:
        """Have those who wait for the column told: ``when`` takes a sequence number and a continuation."""
        native.hold(self.handle)
        self._cell[cells.STATE] = cells.WATCHED
        when(self.sequence, self.tell)

    def settle(self, error: TpuError | None) -> None:
        """The operation is over. What is watched is told elsewhere."""
        if not self.handle:
            return  # C++ has dropped all of it meanwhile
        if error is None:
            native.settle(self.handle)
        elif self.state == cells.PENDING:
            native.close(self.handle, cells.FAILED)

    def tell(self, error: TpuError | None) -> None:
        """The operation that is watched is over: call back those who wait."""
        if error is None:
            native.tell(self.handle)
            return
        waiter = native.close(self.handle, cells.FAILED)
        while waiter:
            cell = _Cell.from_address(waiter)
            waiter, callback, argument = cell[cells.LINK], cell[cells.CALLBACK], cell[cells.ARGUMENT]
            cell[cells.CALLBACK] = 0
            _Callback(callback)(error_handle(error), argument)
        native.drop(self.handle)

    def release(self) -> None:
        """The slice may forget the column."""
        if not self.released:
            self.released = True
            self.session.release(self.number)

    def dropped(self) -> None:
        self.handle = 0
        for count, block in self._blocks:
            _blocks[count].append(block)
        self.release()

    def _new_block(self) -> int:
        free = _blocks[self.count]
        if not free:
            free += _allocate(self.count)
        block = free.pop()
        self._blocks.append((self.count, block))
        return block


class Buffer:
    """One of a column's buffers, by its cell; made anew whenever Python has to do with it."""

    __slots__ = ("_cell", "column")

    def __init__(self, column: Column, cell: Any) -> None:
        self.column = column
        self._cell = cell

    @property
    def number(self) -> int:
        """Its name on the slice."""
        number: int = self.column.number * POSITIONS + self._cell[cells.POSITION]
        return number

    @property
    def memory(self) -> Any:
        return handles.resolve(self._cell[cells.MEMORY])

    @property
    def deleted(self) -> bool:
        return bool(self._cell[cells.DELETED])

    @property
    def nbytes(self) -> int:
        return math.prod(self.column.shape) * self.column.dtype.itemsize

    def delete(self) -> None:
        """Nobody can use it any more."""
        if not self.deleted:
            self._cell[cells.DELETED] = 1
            if self.column.count == 1:
                self.column.release()
            else:
                self.column.session.release_buffer(self.number)


class ColumnEvent:
    """The event of one of a column's buffers, by its cell."""

    __slots__ = ("_address", "_column")

    def __init__(self, column: Column, address: int) -> None:
        self._column = column
        self._address = address

    def is_ready(self) -> bool:
        column = self._column
        ready = column.session.is_done(column.sequence)
        if ready:
            column.settle(column.session.error(column.sequence))
        return ready

    def wait(self) -> None:
        self._column.session.wait(self._column.sequence)

    def error(self) -> TpuError | None:
        return self._column.session.error(self._column.sequence)

    def on_ready(self, callback: int, argument: int) -> None:
        """Call back, with an error or null, when the column is ready."""
        column, session = self._column, self._column.session
        state = column.state
        over = state in (cells.READY, cells.FAILED) or session.is_calling_back()
        if over or not native.wait(self._address, callback, argument):
            session.as_soon_as_done(column.sequence, calling(callback, argument))
        elif state == cells.PENDING:
            column.watch(session.as_soon_as_done)


def calling(callback: int, argument: int) -> Callable[[TpuError | None], None]:
    """What calls a C++ callback with an error, or with null."""
    function = _Callback(callback)
    return lambda error: function(error_handle(error) if error is not None else None, argument)


def _allocate(count: int) -> list[int]:
    """New blocks for ``count`` buffers each, which are never given back to the system."""
    words = count * cells.BUFFER_WORDS
    blocks = max(1, _BLOCK_WORDS // words)
    memory = ctypes.create_string_buffer((blocks * words + 1) * _WORD_BYTES)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # destructors write to it until the end of the process
    start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 16
    return [start + block * words * _WORD_BYTES for block in range(blocks)]
