"""Which memory does a buffer name? Handles of the client, and the storages behind them.

A sharded array that one launch makes is one storage with a handle for each core, and goes into the next launch as it
is. Loose handles are assembled once, and from then on share the assembled storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backend.compiler.program import TensorType
from backend.errors import InvalidArgument, TpuError
from backend.runtime.hbm import CoreHbm
from backend.tensorcore.value import Value

_COMPARED_BYTES = 1 << 20


class Storage:
    """The memory of one value. It goes to ``recycle`` once no handle and no launch refers to it any more.

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


class Handle:
    """One core's buffer: a position in a storage, or the error that stands in its place.

    ``hbm`` is None for buffers in host memory, which take no HBM.
    """

    __slots__ = ("error", "hbm", "hbm_bytes", "kind", "position", "storage")

    def __init__(
        self,
        kind: TensorType,
        storage: Storage | None,
        position: int = 0,
        *,
        hbm: CoreHbm | None = None,
        hbm_bytes: int = 0,
        error: TpuError | None = None,
    ) -> None:
        self.kind = kind
        self.storage = storage
        self.position = position
        self.hbm = hbm
        self.hbm_bytes = hbm_bytes
        self.error = error

    def contents(self) -> Storage:
        """The storage. Raises the error of the operation that should have made it."""
        if self.storage is None:
            raise self.error or InvalidArgument("the buffer holds nothing")
        return self.storage

    def part(self) -> np.ndarray[Any, Any]:
        return self.contents().part(self.position)


class BufferTable:
    """A client's buffers by number."""

    def __init__(self) -> None:
        self._handles: dict[int, Handle] = {}

    def __len__(self) -> int:
        return len(self._handles)

    def __getitem__(self, number: int) -> Handle:
        """Raises InvalidArgument for a number that names no buffer."""
        try:
            return self._handles[number]
        except KeyError:
            raise InvalidArgument(f"buffer {number} was deleted or donated, or never made") from None

    def add(self, number: int, handle: Handle) -> None:
        """Name a buffer; one that had its number before is freed."""
        self.release((number,))
        self._handles[number] = handle

    def arguments(self, numbers: Sequence[int], num_cores: int) -> list[list[Handle]]:
        """The handles of each parameter in core order, from ``numbers`` that run core after core."""
        handles = [self[number] for number in numbers]
        count = len(handles) // num_cores
        return [handles[parameter::count] for parameter in range(count)]

    def release(self, numbers: Sequence[int]) -> None:
        """Forget buffers; a number that is not there any more is passed over."""
        for number in numbers:
            handle = self._handles.pop(number, None)
            if handle is not None and handle.hbm is not None:
                handle.hbm.free(handle.hbm_bytes)

    def clear(self) -> None:
        self.release(list(self._handles))


def gather(handles: Sequence[Handle]) -> Value:
    """The value that the handles of all cores make up, in core order. Raises the error of a poisoned handle."""
    first = handles[0].contents()
    if len(handles) == 1:
        return first.value if first.value.uniform else Value(first.part(handles[0].position), True)
    if _is_whole(first, handles):
        return first.value
    parts = [handle.part() for handle in handles]
    uniform = all(_same_bits(parts[0], part) for part in parts[1:])
    storage = Storage(Value(parts[0], True), base=first) if uniform else Storage(Value(np.stack(parts), False))
    for position, handle in enumerate(handles):
        handle.storage, handle.position = storage, position
    return storage.value


def _is_whole(storage: Storage, handles: Sequence[Handle]) -> bool:
    if any(handle.storage is not storage for handle in handles):
        return False
    if storage.value.uniform:
        return True
    return len(handles) == len(storage.value.array) and all(
        handle.position == position for position, handle in enumerate(handles)
    )


def _same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Equal to the bit, so that -0.0 differs from 0.0 and a NaN equals itself."""
    if one is other:
        return True
    left, right = one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)
    return all(
        np.array_equal(left[start : start + _COMPARED_BYTES], right[start : start + _COMPARED_BYTES])
        for start in range(0, len(left), _COMPARED_BYTES)
    )
