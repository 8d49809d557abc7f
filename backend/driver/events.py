"""When is something ready? PJRT events: the end of an operation on the slice, or one that the host sets."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from backend.driver import cells, handles
from backend.driver.columns import ColumnEvent, calling
from backend.driver.native import set_always_ready
from backend.driver.session import Continuation, Session
from backend.driver.slots import slot
from backend.errors import TpuError, error_from_code


class OperationEvent(handles.Droppable):
    """The end of the operation with number ``sequence``, which somebody is going to wait for."""

    __slots__ = ("sequence", "session")

    def __init__(self, session: Session, sequence: int) -> None:
        self.session = session
        self.sequence = sequence

    def is_ready(self) -> bool:
        return self.session.is_done(self.sequence)

    def wait(self) -> None:
        self.session.wait(self.sequence)

    def error(self) -> TpuError | None:
        return self.session.error(self.sequence)

    def when_ready(self, continuation: Continuation) -> None:
        self.session.as_soon_as_done(self.sequence, continuation)


class HostEvent(handles.Droppable):
    """An event that the host sets."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._error: TpuError | None = None
        self._continuations: list[Continuation] = []

    def set(self, error: TpuError | None = None) -> None:
        self._error = error
        with self._lock:
            self._set.set()
            continuations, self._continuations = self._continuations, []
        for continuation in continuations:
            continuation(error)

    def is_ready(self) -> bool:
        return self._set.is_set()

    def wait(self) -> None:
        self._set.wait()

    def error(self) -> TpuError | None:
        return self._error

    def when_ready(self, continuation: Continuation) -> None:
        with self._lock:
            if not self._set.is_set():
                self._continuations.append(continuation)
                return
        continuation(self._error)


def _ready() -> int:
    event = HostEvent()
    event.set()
    handle = handles.new(event, immortal=True)
    column = handles.new(event, immortal=True, facts=(0, cells.READY, 0, 0))
    handles.words(handle)[cells.COLUMN] = column  # of which machine code sees that it is ready
    set_always_ready(handle)
    return handle


READY = _ready()
"""The handle of an event that has always been ready, shared by all who need one."""


def ready_event(session: Session, sequence: int) -> int:
    """The handle of an event that somebody is going to wait for."""
    if sequence <= session.done and session.error(sequence) is None:
        return READY
    return handles.new(OperationEvent(session, sequence))


@slot("PJRT_Event_IsReady")
def _is_ready(args: Any) -> None:
    args.is_ready = handles.resolve(args.event).is_ready()


@slot("PJRT_Event_Error")
def _error(args: Any) -> None:
    if (error := handles.resolve(args.event).error()) is not None:
        raise error


@slot("PJRT_Event_Await")
def _await(args: Any) -> None:
    event = handles.resolve(args.event)
    event.wait()
    if (error := event.error()) is not None:
        raise error


@slot("PJRT_Event_OnReady")
def _on_ready(args: Any) -> None:
    event = handles.resolve(args.event)
    if isinstance(event, ColumnEvent):
        event.on_ready(args.callback, args.user_arg)
        return
    event.when_ready(calling(args.callback, args.user_arg))


@slot("PJRT_Event_Create")
def _create(args: Any) -> None:
    args.event = handles.new(HostEvent())


@slot("PJRT_Event_Set")
def _set(args: Any) -> None:
    error = None
    if args.error_code:
        message = ctypes.string_at(args.error_message, args.error_message_size).decode()
        error = error_from_code(args.error_code, message)
    handles.resolve(args.event).set(error)
