"""A job's life as a stream of newline-delimited JSON events, until it has ended."""

from __future__ import annotations

import heapq
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path

import anyio
from starlette.concurrency import run_in_threadpool

from backend.host import output
from tpuctl.api.errors import NotFound
from tpuctl.api.jobs import Job, JobChanged, JobState, LogRecord, MetricsLogged, Progress
from tpuctl.api.model import Model
from tpuctl.api.names import shape_text
from tpuctl.control.job_files import metrics_file
from tpuctl.control.metrics_file import MetricsFile
from tpuctl.control.plane import ControlPlane

LOOK_SECONDS = 0.05
KEEP_ALIVE_SECONDS = 10.0
BATCH = 1000


Places = Mapping[int, Path]


def logs(places: Places, offsets: Sequence[int]) -> Iterator[bytes]:
    """The output that workers have stored so far, each from its offset on, in the order it was written in."""
    found = (_records(number, places[number], offset) for number, offset in _starts(places, offsets).items())
    for record in heapq.merge(*found, key=lambda record: record.time):
        yield _line(record)


async def watch(
    plane: ControlPlane, project: str, name: str, offsets: Sequence[int], attempt: int = 1
) -> AsyncIterator[bytes]:
    """Every event of the job, its workers' output in ``attempt`` from their offsets on, and then in those after it.

    Ends with its last state.
    """
    view = await run_in_threadpool(JobView, plane, project, name, offsets, attempt)
    quiet_since = time.monotonic()
    while True:
        lines, ended = await run_in_threadpool(view.look)
        if not lines and time.monotonic() - quiet_since > KEEP_ALIVE_SECONDS:
            lines = [b"\n"]
        if lines:
            quiet_since = time.monotonic()
            yield b"".join(lines)
        if ended or plane.ending:
            return
        if len(lines) < BATCH:
            await anyio.sleep(LOOK_SECONDS)


class JobView:
    """What a watcher has been told so far."""

    def __init__(
        self, plane: ControlPlane, project: str, name: str, offsets: Sequence[int] = (), attempt: int = 1
    ) -> None:
        """Raises NotFound."""
        self._plane = plane
        self._place = (project, name)
        self._open(attempt, offsets)
        self._version = -1
        self._job: Job | None = None
        self._shown: tuple[object, ...] = ()
        self._progress = ""

    def _open(self, attempt: int, offsets: Sequence[int] = ()) -> None:
        """Go on with an attempt."""
        self._attempt = attempt
        self._places = self._plane.worker_places(*self._place, attempt)
        self._offsets = _starts(self._places, offsets)
        self._metrics = MetricsFile(metrics_file(self._places))

    def look(self) -> tuple[list[bytes], bool]:
        """The events since the last look, and whether they were the last."""
        self._look_at_job()
        job = self._job
        if job is None:
            return [], True
        records = self._output()
        if len(records) >= BATCH:
            return [_line(record) for record in records], False
        rows = [MetricsLogged(values=row, attempt=self._attempt) for row in self._metrics.read_on()]
        if self._attempt < job.attempt:
            if not records and not rows:
                self._open(self._attempt + 1)
            return [_line(event) for event in [*records, *rows]], False
        events: list[Model] = [*self._look_at_progress(job), *records, *rows]
        if self._shown != _shown(job):
            self._shown = _shown(job)
            events.insert(len(events) if job.state.ended else 0, JobChanged(job=job))
        return [_line(event) for event in events], job.state.ended

    def _look_at_job(self) -> None:
        """Read the job anew if anything has changed in the store; None if it has been deleted."""
        version = self._plane.store.version
        if version == self._version:
            return
        self._version = version
        try:
            self._job = self._plane.get_job(*self._place)
        except NotFound:
            self._job = None

    def _look_at_progress(self, job: Job) -> list[Model]:
        message = ""
        if job.state is JobState.QUEUED and job.waits_for is not None:
            message = f"waiting: {job.waits_for}"
        elif job.state is JobState.QUEUED:
            verb = "provisioning" if job.ephemeral_slice else "waiting for"
            message = f"{verb} slice {job.slice} ({shape_text(job.accelerator_type, job.num_slices)}) in {job.zone}"
        elif job.state is JobState.RUNNING:
            again = "" if job.attempt == 1 else f", attempt {job.attempt}"
            message = f"running on slice {job.slice}{again}"
            if job.failed_worker is not None and len(job.workers) > 1:
                message = f"worker {job.failed_worker} has failed: ending the others"
        message = self._plane.trouble or message
        if not message or message == self._progress:
            return []
        self._progress = message
        return [Progress(message=message)]

    def _output(self) -> list[LogRecord]:
        """What is new of each worker, at most about BATCH pieces in all, in the order it was written in."""
        share = -(-BATCH // len(self._places))
        new: list[LogRecord] = []
        for number, place in self._places.items():
            some = list(islice(_records(number, place, self._offsets[number], self._attempt), share))
            if some:
                self._offsets[number] = some[-1].offset
            new += some
        return sorted(new, key=lambda record: record.time)


def _shown(job: Job) -> tuple[object, ...]:
    return job.state, job.cancel_requested, job.failed_worker, job.exit_code, job.error, job.attempt, job.waits_for


def _starts(places: Places, offsets: Sequence[int]) -> dict[int, int]:
    """Where to begin with each worker: at the offset in its place, or at its first word."""
    return dict(zip_longest(places, offsets[: len(places)], fillvalue=0))


def _records(number: int, place: Path, offset: int, attempt: int = 1) -> Iterator[LogRecord]:
    for piece in output.read(place, offset):
        yield LogRecord(
            worker=number, attempt=attempt, offset=piece.end, stream=piece.stream, time=piece.time, text=piece.text
        )


def _line(model: Model) -> bytes:
    return model.to_bytes() + b"\n"
