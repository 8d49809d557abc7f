"""Which memory does a buffer name? Columns of the client, and the storages behind them.

A column is an array's buffers on the cores that it lies on: what one launch makes for one result, or one buffer alone.
It is one storage, and goes into the next launch as it is, whatever the number of cores. Buffers of several columns are
assembled once, and from then on share the assembled storage; the client may make them one column (Assemble).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backend.compiler.program import TensorType
from backend.errors import InvalidArgument, TpuError
from backend.link.messages import POSITIONS
from backend.runtime.hbm import Cores, Hbm
from backend.tensorcore.value import Value

_COMPARED_BYTES = 1 << 20


class Storage:
    """The memory of one value. It goes to ``recycle`` once no column and no launch refers to it any more.

    ``base`` is the storage whose memory this one is a view of.
    """

    __slots__ = ("_base", "_recycle", "value")

    def __init__(
        self, value: Value, recycle: Callable[[Value], None] | None = None, base: Storage | None = None
    ) -> None:
        self.value = value
        self._recycle = recycle
        self._base = base

    def __del__(self) -> None:
        if self._recycle is not None:
            self._recycle(self.value)

    def part(self, position: int) -> np.ndarray[Any, Any]:
        """The array of the core at ``position``, a view."""
        return self.value.array if self.value.uniform else self.value.array[position]


class Column:
    """``count`` buffers of one ``kind``: the positions of a storage from ``first`` on, or the error in their place.

    ``places`` are the positions if they are others: those of the client's own cores, where it shares a launch.
    ``hbm`` is None for buffers in host memory, which take no HBM; else each takes ``hbm_bytes`` on its core.
    """

    __slots__ = ("count", "error", "first", "gone", "hbm", "hbm_bytes", "kind", "places", "storage", "where")

    def __init__(
        self,
        kind: TensorType,
        storage: Storage | None,
        count: int = 1,
        first: int = 0,
        *,
        hbm: Hbm | None = None,
        where: Cores | None = None,
        hbm_bytes: int = 0,
        error: TpuError | None = None,
        places: Sequence[int] | None = None,
    ) -> None:
        self.kind = kind
        self.storage = storage
        self.count = count
        self.first = first
        self.places = places
        self.hbm = hbm
        self.where = where
        self.hbm_bytes = hbm_bytes
        self.error = error
        self.gone: set[int] | None = None
        """Positions that were released alone."""

    def contents(self) -> Storage:
        """The storage. Raises the error of the operation that should have made it."""
        if self.storage is None:
            raise self.error or InvalidArgument("the buffer holds nothing")
        return self.storage

    def part(self, position: int) -> np.ndarray[Any, Any]:
        return self.contents().part(self.place(position))

    def place(self, position: int) -> int:
        """Where in the storage a buffer lies."""
        return self.first + position if self.places is None else self.places[position]

    def lies_at(self, places: Sequence[int]) -> bool:
        """Whether the buffers are those of a storage's ``places``."""
        own = range(self.first, self.first + self.count) if self.places is None else self.places
        return own is places or list(own) == list(places)

    def free(self) -> None:
        """Give back the HBM of all positions that still have some."""
        if self.hbm is None or self.where is None:
            return
        self.hbm.free(self.where, self.hbm_bytes)
        if self.gone:
            self.hbm.free(self._cores(self.gone), -self.hbm_bytes)

    def free_part(self, position: int) -> None:
        """Give back the HBM of one position."""
        self.gone = self.gone or set()
        if position not in self.gone:
            self.gone.add(position)
            if self.hbm is not None:
                self.hbm.free(self._cores({position}), self.hbm_bytes)

    def _cores(self, positions: set[int]) -> Cores:
        assert self.hbm is not None and self.where is not None  # noqa: S101, PT018
        return self.hbm.cores([self.where.ids[position] for position in sorted(positions)])


Part = tuple[Column, int]
"""A column and a position in it: one buffer."""
Argument = Column | list[Part]
"""A parameter's buffers in core order: a column, or buffers of several."""


class BufferTable:
    """A client's buffers. A buffer's number is that of its column times POSITIONS, plus its position there."""

    def __init__(self) -> None:
        self._columns: dict[int, Column] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, number: int) -> Part:
        """The buffer with a number. Raises InvalidArgument if there is none."""
        column = self._columns.get(number // POSITIONS)
        position = number % POSITIONS
        if column is None or position >= column.count or (column.gone and position in column.gone):
            raise InvalidArgument(f"buffer {number} was deleted or donated, or never made")
        return column, position

    def add(self, number: int, column: Column) -> None:
        """Name a column; one that had its number before is freed."""
        self.release((number,))
        self._columns[number] = column

    def argument(self, named: int | list[int]) -> Argument:
        """What a launch names as one of its arguments: a column, or buffers one by one. Raises InvalidArgument."""
        if isinstance(named, list):
            return [self[number] for number in named]
        column = self._columns.get(named)
        if column is None or column.gone:
            raise InvalidArgument(f"array {named} was deleted or donated, or never made")
        return column

    def assemble(self, numbers: Sequence[int], number: int) -> None:
        """Make buffers that are columns of their own one column, on the cores that they lie on. Raises TpuError."""
        parts = [self[number] for number in numbers]
        wheres = [column.where for column, _ in parts if column.count == 1 and column.where is not None]
        if len(wheres) != len(parts):
            raise InvalidArgument("only buffers that are alone in their columns can become one")
        value = gather(parts)
        first = parts[0][0]
        assert first.hbm is not None  # noqa: S101
        column = Column(
            first.kind,
            Storage(value, base=first.storage),
            len(parts),
            hbm=first.hbm,
            where=first.hbm.cores([where.ids[0] for where in wheres]),
            hbm_bytes=first.hbm_bytes,
        )
        for each in numbers:
            del self._columns[each // POSITIONS]
        self._columns[number] = column

    def release(self, columns: Sequence[int]) -> None:
        """Forget columns; a number that is not there any more is passed over."""
        for number in columns:
            column = self._columns.pop(number, None)
            if column is not None:
                column.free()

    def release_parts(self, numbers: Sequence[int]) -> None:
        """Forget single buffers; what is not there any more is passed over."""
        for number in numbers:
            column = self._columns.get(number // POSITIONS)
            if column is not None and number % POSITIONS < column.count:
                column.free_part(number % POSITIONS)
                if column.gone is not None and len(column.gone) == column.count:
                    self.release((number // POSITIONS,))

    def release_argument(self, named: int | list[int]) -> None:
        """Forget what a launch names as one of its arguments."""
        if isinstance(named, list):
            self.release_parts(named)
        else:
            self.release((named,))

    def clear(self) -> None:
        self.release(list(self._columns))


def parts_of(argument: Argument) -> list[Part]:
    """The buffers of an argument one by one."""
    return argument if isinstance(argument, list) else [(argument, position) for position in range(argument.count)]


def gather(argument: Argument) -> Value:
    """The value that an argument's buffers make up, in core order. Raises the error of a poisoned buffer."""
    if isinstance(argument, Column):
        return _column_value(argument)
    if len(argument) == 1:
        column, position = argument[0]
        return Value(column.part(position), True)
    first = argument[0][0].contents()
    if _is_whole(first, argument):
        return first.value
    parts = [column.part(position) for column, position in argument]
    uniform = all(same_bits(parts[0], part) for part in parts[1:])
    storage = Storage(Value(parts[0], True), base=first) if uniform else Storage(Value(np.stack(parts), False))
    for position, (column, _) in enumerate(argument):
        if column.count == 1:
            column.storage, column.first, column.places = storage, position, None
    return storage.value


def _column_value(column: Column) -> Value:
    storage, value = column.contents(), column.contents().value
    if value.uniform or (column.count > 1 and column.count == len(value.array)):
        return value
    if column.count == 1:
        return Value(storage.part(column.place(0)), True)
    if column.places is not None:
        return Value(value.array[list(column.places)], False)
    return Value(value.array[column.first : column.first + column.count], False)


def _is_whole(storage: Storage, parts: Sequence[Part]) -> bool:
    if any(column.storage is not storage for column, _ in parts):
        return False
    if storage.value.uniform:
        return True
    return len(parts) == len(storage.value.array) and all(
        column.place(place) == position for position, (column, place) in enumerate(parts)
    )


def same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal to the bit, so that -0.0 differs from 0.0 and a NaN equals itself."""
    if one is other:
        return True
    left, right = one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)
    return all(
        np.array_equal(left[start : start + _COMPARED_BYTES], right[start : start + _COMPARED_BYTES])
        for start in range(0, len(left), _COMPARED_BYTES)
    )
