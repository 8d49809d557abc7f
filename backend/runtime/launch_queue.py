"""In what order do things happen on the chips? One after the other, as they were submitted.

Whatever may take its time is done by the launch thread. What is short, with nothing before it in the queue, is done at
once by the thread that submits it. That saves the way through the queue, which costs more than the operation itself.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from backend.errors import Internal, ResourceExhausted, TpuError
from backend.link.messages import Assemble, Failed, MemoryStats, Release, Unload
from backend.runtime.outbox import Outbox
from backend.runtime.session import Operation, Session

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Entry:
    session: Session
    operation: Operation
    outbox: Outbox


@dataclass(frozen=True)
class _End:
    session: Session
    when_ended: Callable[[], None]


class LaunchQueue:
    """The slice's queue of operations, and the thread that does them. One thread at a time may submit."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Entry | _End] = queue.SimpleQueue()
        self._submitted = 0
        self._finished = 0
        self._thread = threading.Thread(target=self._run, name="launch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, session: Session, operation: Operation, outbox: Outbox) -> None:
        """Do an operation now, or put it at the end of the queue; what it has to say goes to ``outbox``.

        The caller flushes the outbox when it has submitted all that it has.
        """
        entry = _Entry(session, operation, outbox)
        if self._submitted == self._finished and session.is_short(operation):
            _do(entry)
            return
        outbox.flush()
        self._put(entry)

    def end(self, session: Session, when_ended: Callable[[], None]) -> None:
        """Drop what is left of a session, free what it owned, then call ``when_ended``."""
        session.ended = True
        session.host_calls.hang_up()
        self._put(_End(session, when_ended))

    def _put(self, entry: _Entry | _End) -> None:
        self._submitted += 1
        self._queue.put(entry)

    def _run(self) -> None:
        while True:
            entry = self._queue.get()
            try:
                self._take(entry)
            except Exception:  # noqa: BLE001 the outermost boundary of the thread that all clients depend on
                _log.exception("the launch thread goes on after an error")
            self._finished += 1
            del entry

    def _take(self, entry: _Entry | _End) -> None:
        if isinstance(entry, _End):
            try:
                entry.session.end()
            finally:
                entry.when_ended()
        elif not entry.session.ended:
            _do(entry)
            entry.outbox.flush()


def _without_frames(error: TpuError) -> TpuError:
    """The error that clients hear of; the frames it came through would keep a launch's arguments alive."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _do(entry: _Entry) -> None:
    """Do an operation and report it. A client's program that fails must not end the slice."""
    operation, session, outbox = entry.operation, entry.session, entry.outbox
    failure: TpuError | None = None
    try:
        reply = session.perform(operation)
    except TpuError as error:
        failure = _without_frames(error)
    except MemoryError:
        failure = ResourceExhausted("the host has no memory left for this operation")
    except Exception as error:  # noqa: BLE001 the outermost boundary of what a client's program can do
        _log.exception("operation failed", extra={"operation": type(operation).__name__, "job": session.job})
        failure = Internal(f"{type(error).__name__}: {error}")
    else:
        if reply is not None:
            outbox.send(reply)
    match operation:
        case Assemble() | Release() | Unload():
            return
        case MemoryStats():
            if failure is not None:
                outbox.send(Failed(operation.request, failure.code, failure.message))
        case _:
            if failure is not None:
                session.fail(operation, failure)
            outbox.done(operation.sequence, failure)
