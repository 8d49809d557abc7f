"""Who waits for whom? The launches that some of a job's processes have come to, and others not yet.

A thread of its own watches them: it tells all of those who keep the others waiting, and says when to give up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from backend.runtime.agreement import is_late, lateness
from backend.runtime.parties import Appointment, Parties, Run, Trouble
from backend.runtime.streams import Stream

_LOOKS = 10
"""How often it is looked whether somebody is late, in the time after which that is told."""
_LONGEST_LOOK_SECONDS = 1.0


@dataclass(eq=False)
class Meeting:
    """An appointment with those who have come to it. ``told`` says whether it is known that it takes long.

    It is ``over`` when nobody waits any more.
    """

    run: Run
    appointment: Appointment
    streams: dict[int, Stream] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    late_since: float | None = None
    told: bool = False
    over: bool = False

    def is_complete(self) -> bool:
        """Whether all processes that the launch needs have come."""
        return len(self.streams) == len(self.appointment.processes)


class Meetings:
    """The meetings of all runs. Changed by the launch thread only."""

    def __init__(self, parties: Parties, give_up: Callable[[Meeting, Trouble], None]) -> None:
        """``give_up`` is called by the watcher's thread, with what says why."""
        self._parties = parties
        self._give_up = give_up
        self._meetings: dict[Run, dict[bytes, Meeting]] = {}
        self._changing = threading.Lock()
        """Held while it is looked who is late, and while a meeting ends."""
        self._someone_waits = threading.Event()
        self._look_seconds = _LONGEST_LOOK_SECONDS
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        self._watcher.start()

    def of(self, run: Run) -> list[Meeting]:
        """The meetings of a run's processes."""
        return list(self._meetings.get(run, {}).values())

    def come(self, stream: Stream, appointment: Appointment) -> Meeting:
        """A stream has come to an appointment with its next operation."""
        meetings = self._meetings.setdefault(stream.run, {})
        meeting = meetings.get(appointment.signature)
        if meeting is None:
            meeting = meetings[appointment.signature] = Meeting(stream.run, appointment)
        party = stream.session.party
        meeting.streams[party.process] = stream
        stream.meeting, stream.owed = meeting, 1
        party.appointment = appointment
        return meeting

    def wait(self, stream: Stream) -> None:
        """A stream waits; from now on it is watched for how long."""
        party = stream.session.party
        self._look_seconds = min(_LONGEST_LOOK_SECONDS, party.notice_seconds / _LOOKS, party.timeout_seconds / _LOOKS)
        self._someone_waits.set()

    def end(self, meeting: Meeting) -> None:
        """The waiting is over: all have come, or nobody waits any longer."""
        with self._changing:
            meeting.over = True
            if meeting.told:
                self._parties.resume(meeting.run)

    def leave(self, stream: Stream, meeting: Meeting) -> None:
        """A stream does not wait any more."""
        party, run = stream.session.party, meeting.run
        party.appointment = stream.meeting = None
        stream.owed = 0
        del meeting.streams[party.process]
        if not meeting.streams:
            del self._meetings[run][meeting.appointment.signature]
            if not self._meetings[run]:
                del self._meetings[run]

    def tell(self, run: Run, text: str) -> None:
        """Say something to the people at every process of a run."""
        for party in list(run.parties.values()):
            if not party.ended:
                party.tell(text)

    # The watcher's thread

    def _watch(self) -> None:
        while True:
            self._someone_waits.wait()
            time.sleep(self._look_seconds)
            if not self._meetings:
                self._someone_waits.clear()
            for run in list(self._meetings):
                for meeting in self.of(run):
                    self._look_at(meeting)

    def _look_at(self, meeting: Meeting) -> None:
        with self._changing:
            news, trouble = (None, None) if meeting.over else self._lateness(meeting)
        if news is not None:
            self.tell(meeting.run, news)
        if trouble is not None:
            self._give_up(meeting, trouble)

    def _lateness(self, meeting: Meeting) -> tuple[str | None, Trouble | None]:
        """What is to be told of those who keep a meeting waiting, and why it is to be given up; None for nothing."""
        run, appointment, now = meeting.run, meeting.appointment, time.monotonic()
        parties = [stream.session.party for stream in list(meeting.streams.values())]
        if not is_late(run, appointment):
            meeting.late_since = None
        elif meeting.late_since is None:
            meeting.late_since = now
        late = lateness(run, appointment, now)
        if late is None or not parties:
            return None, None
        news = trouble = None
        if not meeting.told and now - meeting.since >= min(party.notice_seconds for party in parties):
            meeting.told = True
            news = f"waiting: {late.text}"
        if meeting.told:
            self._parties.suspend(run, late)
        timeout_seconds = min(party.timeout_seconds for party in parties)
        if meeting.late_since is not None and now - meeting.late_since >= timeout_seconds:
            text = f"{late.text}; given up after {timeout_seconds:g} s (TPUCTL_LAUNCH_TIMEOUT)"
            trouble = late._replace(text=text)
        return news, trouble
