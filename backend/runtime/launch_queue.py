"""In what order do things happen on the chips? For each client one after the other, as they were submitted.

Whatever may take its time is done by the launch thread. What is short, with nothing of its client before it in the
queue, is done at once by the thread that submits it. That saves the way through the queue, which costs more than the
operation itself.

A launch that needs several processes is an appointment: each client waits at it, and the others' operations go on,
until all have come. It is given up when it can never start, or when somebody keeps the others waiting for too long.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from backend.errors import FailedPrecondition, Internal, ResourceExhausted, TpuError
from backend.link.messages import Assemble, Execute, Failed, MemoryStats, Release, Reply, Unload
from backend.runtime.agreement import is_complete, is_late, lateness, obstacle
from backend.runtime.launch import Call
from backend.runtime.outbox import Outbox
from backend.runtime.parties import Appointment, Parties, Run
from backend.runtime.session import Operation, Session

_log = logging.getLogger(__name__)
_LOOKS = 10
"""How often it is looked whether somebody is late, in the time after which that is told."""
_LONGEST_LOOK_SECONDS = 1.0


@dataclass(eq=False)
class Stream:
    """One client's operations, in their order. Only one thread may submit to it."""

    session: Session
    outbox: Outbox
    run: Run
    entries: deque[Operation] = field(default_factory=deque)
    submitted: int = 0
    finished: int = 0
    meeting: _Meeting | None = None
    owed: int = 0
    """Operations to look at when the appointment at which the stream waits is over, its own among them."""

    def is_idle(self) -> bool:
        """Whether all that was submitted is done."""
        return self.submitted == self.finished


@dataclass(eq=False)
class _Meeting:
    """An appointment with those who have come to it."""

    run: Run
    appointment: Appointment
    streams: dict[int, Stream] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    late_since: float | None = None
    told: bool = False


@dataclass(frozen=True)
class _End:
    stream: Stream
    when_ended: Callable[[], None]


@dataclass(frozen=True)
class _GiveUp:
    meeting: _Meeting
    trouble: str


class LaunchQueue:
    """The slice's operations, and the thread that does them."""

    def __init__(self, parties: Parties) -> None:
        self._parties = parties
        self._queue: queue.SimpleQueue[Stream | _End | _GiveUp] = queue.SimpleQueue()
        self._chips = threading.Lock()
        self._meetings: dict[Run, dict[bytes, _Meeting]] = {}
        self._thread = threading.Thread(target=self._work, name="launch", daemon=True)
        self._someone_waits = threading.Event()
        self._look_seconds = _LONGEST_LOOK_SECONDS
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._watcher.start()

    def submit(self, stream: Stream, operation: Operation) -> None:
        """Do an operation now, or put it at the end of its client's; what it has to say goes to the outbox.

        The caller flushes the outbox when it has submitted all that it has.
        """
        if stream.submitted == stream.finished and stream.session.is_short(operation):
            if not isinstance(operation, Execute):
                _do(stream, operation)
                return
            if self._chips.acquire(blocking=False):
                try:
                    _do(stream, operation)
                finally:
                    self._chips.release()
                return
        stream.outbox.flush()
        stream.submitted += 1
        stream.entries.append(operation)
        self._queue.put(stream)

    def end(self, stream: Stream, when_ended: Callable[[], None]) -> None:
        """Drop what is left of a client, free what it owned, then call ``when_ended``."""
        session = stream.session
        self._parties.leave(stream.run, session.party, spoiled=not stream.is_idle())
        session.ended = True
        session.host_calls.hang_up(f"worker {session.party.process}" if session.shares_slice else "the script")
        self._queue.put(_End(stream, when_ended))

    # The launch thread

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            try:
                match item:
                    case Stream():
                        self._look(item)
                    case _End():
                        self._end(item)
                    case _GiveUp() if item.meeting.streams:
                        self._give_up(item.meeting.run, item.trouble)
            except Exception:  # noqa: BLE001 the outermost boundary of the thread that all clients depend on
                _log.exception("the launch thread goes on after an error")
            del item

    def _look(self, stream: Stream) -> None:
        """Do a stream's next operation, or let it wait for others at an appointment."""
        if stream.meeting is not None:
            stream.owed += 1
            return
        operation = stream.entries[0]
        if not stream.session.ended and (appointment := stream.session.appointment(operation)) is not None:
            self._come(stream, appointment)
            return
        stream.entries.popleft()
        try:
            if not stream.session.ended:
                with self._chips:
                    _do(stream, operation)
                stream.outbox.flush()
        finally:
            stream.finished += 1

    def _come(self, stream: Stream, appointment: Appointment) -> None:
        """A stream has come to an appointment."""
        run, party = stream.run, stream.session.party
        meetings = self._meetings.setdefault(run, {})
        meeting = meetings.get(appointment.signature)
        if meeting is None:
            meeting = meetings[appointment.signature] = _Meeting(run, appointment)
        meeting.streams[party.process] = stream
        stream.meeting, stream.owed = meeting, 1
        party.appointment = appointment
        if run.trouble is not None:
            self._give_up(run, run.trouble)
        elif is_complete(run, appointment):
            self._launch(meeting)
        elif trouble := obstacle(run, appointment, time.monotonic()):
            self._give_up(run, trouble)
        else:
            patience = min(party.notice_seconds, party.timeout_seconds)
            self._look_seconds = min(_LONGEST_LOOK_SECONDS, patience / _LOOKS)
            self._someone_waits.set()

    def _launch(self, meeting: _Meeting) -> None:
        """All are there."""
        streams = [meeting.streams[process] for process in sorted(meeting.streams)]
        operations = [stream.entries[0] for stream in streams]
        session = streams[0].session
        try:
            with self._chips:
                _, failure = _attempt(lambda: session.launcher.run(session.job, _calls(streams, operations)), session)
            for stream, operation in zip(streams, operations, strict=True):
                _report(stream, operation, None, failure)
        finally:
            self._part(meeting)

    def _part(self, meeting: _Meeting) -> None:
        """The appointment is over; the streams go on with what was submitted meanwhile."""
        if meeting.told:
            self._parties.resume(meeting.run)
        for stream in list(meeting.streams.values()):
            owed = stream.owed
            self._leave(stream, meeting)
            stream.entries.popleft()
            stream.finished += 1
            stream.outbox.flush()
            for _ in range(owed - 1):
                self._queue.put(stream)

    def _leave(self, stream: Stream, meeting: _Meeting) -> None:
        """A stream does not wait at an appointment any more."""
        party, run = stream.session.party, meeting.run
        party.appointment = stream.meeting = None
        stream.owed = 0
        del meeting.streams[party.process]
        if not meeting.streams:
            del self._meetings[run][meeting.appointment.signature]
            if not self._meetings[run]:
                del self._meetings[run]

    def _give_up(self, run: Run, trouble: str) -> None:
        """Fail all that processes of a run wait for; later launches that need several of them fail, too."""
        if run.trouble is None:
            self._parties.report(run, trouble)
            _log.warning("launch failed", extra={"job": run.job, "reason": trouble})
            self._tell(run, f"launch failed: {trouble}")
        error = FailedPrecondition(trouble)
        for meeting in list(self._meetings.get(run, {}).values()):
            try:
                for stream in meeting.streams.values():
                    _report(stream, stream.entries[0], None, error)
            finally:
                self._part(meeting)

    def _end(self, end: _End) -> None:
        stream, run = end.stream, end.stream.run
        try:
            if stream.meeting is not None:
                self._leave(stream, stream.meeting)
            stream.entries.clear()
            stream.session.end()
        finally:
            end.when_ended()
        for meeting in list(self._meetings.get(run, {}).values()):
            if trouble := obstacle(run, meeting.appointment, time.monotonic()):
                self._give_up(run, trouble)
                return

    # The watcher's thread

    def _watch(self) -> None:
        """Tell of those who keep others waiting, and give up after a while."""
        while True:
            self._someone_waits.wait()
            time.sleep(self._look_seconds)
            meetings = [meeting for run in list(self._meetings.values()) for meeting in list(run.values())]
            if not meetings:
                self._someone_waits.clear()
                meetings = [meeting for run in list(self._meetings.values()) for meeting in list(run.values())]
            for meeting in meetings:
                self._watch_one(meeting)

    def _watch_one(self, meeting: _Meeting) -> None:
        run, appointment, now = meeting.run, meeting.appointment, time.monotonic()
        parties = [stream.session.party for stream in list(meeting.streams.values())]
        if not parties:
            return
        notice_seconds = min(party.notice_seconds for party in parties)
        timeout_seconds = min(party.timeout_seconds for party in parties)
        if not is_late(run, appointment):
            meeting.late_since = None
        elif meeting.late_since is None:
            meeting.late_since = now
        text = lateness(run, appointment, now)
        if text and not meeting.told and now - meeting.since >= notice_seconds:
            meeting.told = True
            self._tell(run, f"waiting: {text}")
        if text and meeting.told and meeting.streams:
            self._parties.suspend(run, text)
        if text and meeting.late_since is not None and now - meeting.late_since >= timeout_seconds:
            self._queue.put(_GiveUp(meeting, f"{text}; given up after {timeout_seconds:g} s (TPUCTL_LAUNCH_TIMEOUT)"))

    def _tell(self, run: Run, text: str) -> None:
        """Say something to the people at every process of a run."""
        for party in list(run.parties.values()):
            if not party.ended:
                party.tell(text)


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


def _without_frames(error: TpuError) -> TpuError:
    """The error that clients hear of; the frames it came through would keep a launch's arguments alive."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _do(stream: Stream, operation: Operation) -> None:
    """Do an operation and report it."""
    reply, failure = _attempt(lambda: stream.session.perform(operation), stream.session)
    _report(stream, operation, reply, failure)


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


def _report(stream: Stream, operation: Operation, reply: Reply | None, failure: TpuError | None) -> None:
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
