"""How is one operation of a client done, and what does the client hear of it? In order, client by client."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backend.errors import Internal, ResourceExhausted, TpuError
from backend.link.messages import Assemble, Execute, Failed, MemoryStats, Release, Reply, Unload
from backend.runtime.launch import Call
from backend.runtime.outbox import Outbox
from backend.runtime.parties import Run
from backend.runtime.session import Operation, Session

if TYPE_CHECKING:
    from backend.runtime.meetings import Meeting

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Stream:
    """One client's operations, in their order. Only one thread may submit to it.

    ``owed`` counts the operations to look at when the ``meeting`` at which the stream waits is over, with its own.
    """

    session: Session
    outbox: Outbox
    run: Run
    entries: deque[Operation] = field(default_factory=deque)
    submitted: int = 0
    finished: int = 0
    meeting: Meeting | None = None
    owed: int = 0

    def is_idle(self) -> bool:
        """Whether all that was submitted is done."""
        return self.submitted == self.finished


def perform(stream: Stream, operation: Operation) -> None:
    """Do an operation and report it."""
    reply, failure = _attempt(lambda: stream.session.perform(operation), stream.session)
    report(stream, operation, reply, failure)


def launch_together(streams: Sequence[Stream]) -> TpuError | None:
    """Launch what all clients have come to: the first operation of each. What it fails with, which is reported."""
    session, operations = streams[0].session, [stream.entries[0] for stream in streams]
    _, failure = _attempt(lambda: session.launcher.run(session.job, _calls(streams, operations)), session)
    for stream, operation in zip(streams, operations, strict=True):
        report(stream, operation, None, failure)
    return failure


def report(stream: Stream, operation: Operation, reply: Reply | None, failure: TpuError | None) -> None:
    """Tell a client of an operation that is over."""
    outbox = stream.outbox
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
                stream.session.fail(operation, failure)
            outbox.done(operation.sequence, failure)


def _calls(streams: Sequence[Stream], operations: Sequence[Operation]) -> list[Call]:
    """What each client brings for a launch. Raises the first one's TpuError that can't."""
    calls, failure = [], None
    for stream, operation in zip(streams, operations, strict=True):
        assert isinstance(operation, Execute)  # noqa: S101 nothing else has an appointment
        try:
            calls.append(stream.session.call(operation))
        except TpuError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return calls


def _attempt(action: Callable[[], Reply | None], session: Session) -> tuple[Reply | None, TpuError | None]:
    """A client's program that fails must not end the slice."""
    try:
        return action(), None
    except TpuError as error:
        return None, _without_frames(error)
    except MemoryError:
        return None, ResourceExhausted("the host has no memory left for this operation")
    except Exception as error:  # noqa: BLE001 the outermost boundary of what a client's program can do
        _log.exception("operation failed", extra={"job": session.job})
        return None, Internal(f"{type(error).__name__}: {error}")


def _without_frames(error: TpuError) -> TpuError:
    """The error that clients hear of; the frames it came through would keep a launch's arguments alive."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
