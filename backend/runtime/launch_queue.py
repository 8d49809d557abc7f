"""In what order do things happen on the chips? One thread does the operations of the queue, one after the other."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from backend.errors import Internal, ResourceExhausted, TpuError
from backend.link.messages import Done, Failed, Failure, MemoryStats, Message, Release, Unload
from backend.runtime.session import Operation, Session

_log = logging.getLogger(__name__)

Send = Callable[[Message], None]


class LaunchQueue:
    """The slice's queue of operations, and the thread that does them."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Session, Operation | None, Callable[..., None]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="launch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, session: Session, operation: Operation, send: Send) -> None:
        """Put an operation at the end; its replies go to ``send``."""
        self._queue.put((session, operation, send))

    def end(self, session: Session, when_ended: Callable[[], None]) -> None:
        """Drop what is left of a session, free what it owned, then call ``when_ended``."""
        session.ended = True
        self._queue.put((session, None, when_ended))

    def _run(self) -> None:
        while True:
            session, operation, then = self._queue.get()
            if operation is None:
                session.end()
                then()
            elif not session.ended:
                _answer(operation, _perform(session, operation, then), then)


def _perform(session: Session, operation: Operation, send: Send) -> TpuError | None:
    """Do an operation and send its data. Its error comes back: a program that fails must not end the slice."""
    try:
        reply = session.perform(operation)
    except TpuError as error:
        failure = error
    except MemoryError:
        failure = ResourceExhausted("the host has no memory left for this operation")
    except Exception as error:  # noqa: BLE001 the outermost boundary of what a client's program can do
        _log.exception("operation failed", extra={"operation": type(operation).__name__, "job": session.job})
        failure = Internal(f"{type(error).__name__}: {error}")
    else:
        if reply is not None:
            send(reply)
        return None
    session.fail(operation, failure)
    return failure


def _answer(operation: Operation, error: TpuError | None, send: Send) -> None:
    """Tell the client that an operation is done."""
    match operation:
        case Release() | Unload():
            return
        case MemoryStats():
            if error is not None:
                send(Failed(operation.request, error.code, error.message))
        case _:
            sequence = operation.sequence
            failures = [Failure(sequence, error.code, error.message)] if error is not None else []
            send(Done(sequence, failures))
