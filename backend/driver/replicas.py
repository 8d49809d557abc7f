"""Is this host data on the slice already? JAX sends a replicated array to its devices one by one, from one place.

It does so within one call from one of its own functions, in which no code of the script can change the data. So what
comes from the same address within the same call, for a device that has not had it yet, is a copy of what came first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import jax

from backend.driver.devices import Memory

_JAX = str(Path(jax.__file__).parent)

Key = tuple[Any, ...]


class Call:
    """One run of an instruction of one of JAX's functions. Equal only to itself: a frame that is kept is not reused."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._instruction = frame.f_lasti

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._frame is other._frame and self._instruction == other._instruction

    __hash__ = None  # type: ignore[assignment]


def call_of_jax() -> Call | None:
    """The call within which C++ has called us; None if it does not come from JAX's own Python code."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("backend.driver"):
        frame = frame.f_back
    return Call(frame) if frame is not None and frame.f_code.co_filename.startswith(_JAX) else None


class Replicas:
    """What was sent last, and to which memories."""

    def __init__(self) -> None:
        self._key: Key | None = None
        self._buffer = 0
        self._memories: set[Memory] = set()

    def begin(self, key: Key, memory: Memory, buffer: int) -> None:
        """Data has been sent to a memory as ``buffer``; ``key`` says from where, and within which call."""
        self._key, self._buffer, self._memories = key, buffer, {memory}

    def source(self, key: Key, memory: Memory) -> int | None:
        """The number of the buffer that has the data already, or None."""
        if self._key is None or key != self._key or memory in self._memories:
            self._key = None  # with it goes the frame, and what its variables refer to
            return None
        self._memories.add(memory)
        return self._buffer
