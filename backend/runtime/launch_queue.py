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
from collections.abc import Callable
from dataclasses import dataclass

from backend.errors import FailedPrecondition
from backend.link.messages import Execute
from backend.runtime.agreement import obstacle
from backend.runtime.meetings import Meeting, Meetings
from backend.runtime.parties import Appointment, Parties, Run, Trouble
from backend.runtime.session import Operation, Session
from backend.runtime.streams import Stream, launch_together, perform, report

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _End:
    stream: Stream
    when_ended: Callable[[], None]


@dataclass(frozen=True)
class _GiveUp:
    meeting: Meeting
    trouble: Trouble


class LaunchQueue:
    """The slice's operations, and the thread that does them."""

    def __init__(self, parties: Parties) -> None:
        self._parties = parties
        self._queue: queue.SimpleQueue[Stream | _End | _GiveUp] = queue.SimpleQueue()
        self._chips = threading.Lock()
        """Held while a program runs: one at a time."""
        self._meetings = Meetings(parties, lambda meeting, trouble: self._queue.put(_GiveUp(meeting, trouble)))
        self._thread = threading.Thread(target=self._work, name="launch", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._meetings.start()

    def submit(self, stream: Stream, operation: Operation) -> None:
        """Do an operation now, or put it at the end of its client's; what it has to say goes to the outbox.

        The caller flushes the outbox when it has submitted all that it has.
        """
        if stream.submitted == stream.finished and stream.session.is_short(operation):
            if not isinstance(operation, Execute):
                perform(stream, operation)
                return
            if self._chips.acquire(blocking=False):
                try:
                    perform(stream, operation)
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
        session.host_calls.hang_up(_gone(session))
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
        if not stream.entries:
            return  # the client has ended
        operation = stream.entries[0]
        if not stream.session.ended and (appointment := stream.session.appointment(operation)) is not None:
            self._come(stream, appointment)
            return
        stream.entries.popleft()
        try:
            if not stream.session.ended:
                with self._chips:
                    perform(stream, operation)
                stream.outbox.flush()
        finally:
            stream.finished += 1

    def _come(self, stream: Stream, appointment: Appointment) -> None:
        """A stream has come to an appointment."""
        run, meeting = stream.run, self._meetings.come(stream, appointment)
        if run.trouble is not None:
            self._give_up(run, run.trouble)
        elif meeting.is_complete():
            self._launch(meeting)
        elif self._may_be_in_vain(run) and (trouble := obstacle(run, appointment, time.monotonic())):
            self._give_up(run, trouble)
        else:
            self._meetings.wait(stream)

    def _may_be_in_vain(self, run: Run) -> bool:
        """Whether an obstacle is to be looked for: for those who come to the same launch and all live there is none."""
        return len(self._meetings.of(run)) > 1 or any(party.ended for party in run.parties.values())

    def _launch(self, meeting: Meeting) -> None:
        """All have come."""
        self._meetings.end(meeting)
        streams = [meeting.streams[process] for process in sorted(meeting.streams)]
        failure = None
        try:
            with self._chips:
                failure = launch_together(streams)
        finally:
            self._part(meeting)
        ended = [stream.session.party.process for stream in streams if stream.session.ended]
        if failure is not None and ended:
            self._give_up(meeting.run, Trouble(failure.message, min(ended)))

    def _part(self, meeting: Meeting) -> None:
        """The streams of a meeting that is over go on with what was submitted meanwhile."""
        for stream in list(meeting.streams.values()):
            owed = stream.owed
            self._meetings.leave(stream, meeting)
            stream.entries.popleft()
            stream.finished += 1
            stream.outbox.flush()
            for _ in range(owed - 1):
                self._queue.put(stream)

    def _give_up(self, run: Run, trouble: Trouble) -> None:
        """Fail all that processes of a run wait for; later launches that need several of them fail, too."""
        if run.trouble is None:
            self._parties.report(run, trouble)
            _log.warning("launch failed", extra={"job": run.job, "reason": trouble.text})
            self._meetings.tell(run, f"launch failed: {trouble.text}")
        error = FailedPrecondition(trouble.text)
        for meeting in self._meetings.of(run):
            self._meetings.end(meeting)
            try:
                for stream in meeting.streams.values():
                    report(stream, stream.entries[0], None, error)
            finally:
                self._part(meeting)

    def _end(self, end: _End) -> None:
        stream, run = end.stream, end.stream.run
        try:
            if stream.meeting is not None:
                self._meetings.leave(stream, stream.meeting)
            stream.entries.clear()
            stream.session.end()
        finally:
            end.when_ended()
        for meeting in self._meetings.of(run):
            if trouble := obstacle(run, meeting.appointment, time.monotonic()):
                self._give_up(run, trouble)
                return


def _gone(session: Session) -> str:
    """What is said of a program that waits for a callback of a client that has ended."""
    if not session.shares_slice:
        return "the script has ended while its program waited for a callback"
    party = session.party
    return f"worker {party.process} (pid {party.pid}) ended while {party.last_label} waited for its callback"
