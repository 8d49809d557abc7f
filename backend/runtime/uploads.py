"""How does host data become a buffer? Parts are copied out of the link as they arrive, before the launch queue."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.compiler.shortage import size_text
from backend.errors import ResourceExhausted, TpuError
from backend.link.arena import Arena
from backend.link.dtypes import DTYPES
from backend.link.framing import MalformedFrame
from backend.link.messages import Data, Put, Region, Stage

MAX_RANK = 64
MAX_DIM = 1 << 40

Allocate = Callable[[int], np.ndarray[Any, np.dtype[np.uint8]]]


@dataclass(frozen=True)
class Upload:
    """A buffer whose data has come: its array, or why it could not be taken."""

    put: Put
    array: np.ndarray[Any, Any] | None
    error: TpuError | None = None

    @property
    def sequence(self) -> int:
        return self.put.sequence


class _Room:
    """Memory that data is copied into part by part; a buffer that does not fit has an error instead of bytes."""

    def __init__(self, size: int, limit_bytes: int, allocate: Allocate) -> None:
        if size < 0:
            raise MalformedFrame(f"a buffer of {size} bytes")
        self.size = size
        self.filled = 0
        self.bytes: np.ndarray[Any, Any] | None = None
        self.error: TpuError | None = None
        if size > limit_bytes:
            self.error = ResourceExhausted(
                f"Error allocating device buffer: Attempting to allocate {size_text(size)}. That was not possible. "
                f"A core has {size_text(limit_bytes)} of HBM."
            )
            return
        try:
            self.bytes = allocate(size)
        except MemoryError:
            self.error = ResourceExhausted(f"the host has no {size_text(size)} of memory left for a buffer")

    def fill(self, source: memoryview) -> None:
        """Raises MalformedFrame for more data than was announced."""
        end = self.filled + len(source)
        if end > self.size:
            raise MalformedFrame(f"{end} bytes of data for a buffer of {self.size} bytes")
        if self.bytes is not None and len(source):
            np.copyto(self.bytes[self.filled : end], np.frombuffer(source, np.uint8))
        self.filled = end


class Uploads:
    """Buffers of which not all parts are here yet. Used by the connection's thread only."""

    def __init__(self, arena: Arena | None, limit_bytes: int, allocate: Allocate) -> None:
        """``limit_bytes`` bounds one buffer: a core's HBM. ``allocate`` gives host memory."""
        self._arena = arena
        self._limit_bytes = limit_bytes
        self._allocate = allocate
        self._rooms: dict[int, _Room] = {}

    def stage(self, stage: Stage) -> None:
        """Take a part. Raises MalformedFrame."""
        room = self._rooms.get(stage.buffer)
        if room is None:
            room = self._rooms[stage.buffer] = _Room(stage.size, self._limit_bytes, self._allocate)
        room.fill(self._view(stage.data))

    def finish(self, put: Put) -> Upload:
        """Take the last part. Raises MalformedFrame."""
        if len(put.shape) > MAX_RANK or any(not 0 <= dim <= MAX_DIM for dim in put.shape) or put.dtype not in DTYPES:
            raise MalformedFrame(f"a buffer of shape {put.shape} and type {put.dtype}")
        dtype = DTYPES[put.dtype]
        size = math.prod(put.shape) * dtype.itemsize
        room = self._rooms.pop(put.buffer, None) or _Room(size, self._limit_bytes, self._allocate)
        room.fill(self._view(put.data))
        if not room.filled == room.size == size:
            raise MalformedFrame(f"{room.filled} bytes of data for a buffer of {size} bytes")
        array = room.bytes.view(dtype).reshape(put.shape) if room.bytes is not None else None
        return Upload(put, array, room.error)

    def _view(self, data: Data) -> memoryview:
        if not isinstance(data, Region):
            return memoryview(data)
        if self._arena is None:
            raise MalformedFrame("a region, but the connection has no staging arena")
        return self._arena.view(data)
