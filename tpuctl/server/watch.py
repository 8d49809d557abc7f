"""A job's life as a stream of newline-delimited JSON events, until it has ended."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
from starlette.concurrency import run_in_threadpool

from backend.host import output
from tpuctl.api.errors import NotFound
from tpuctl.api.jobs import Job, JobChanged, JobState, LogRecord, MetricsLogged, Progress
from tpuctl.api.model import Model
from tpuctl.control.metrics_file import METRICS_FILE, MetricsFile
from tpuctl.control.plane import ControlPlane

LOOK_SECONDS = 0.05
KEEP_ALIVE_SECONDS = 10.0
BATCH = 1000


def logs(directory: str, offset: int) -> Iterator[bytes]:
    """The output stored so far, from ``offset`` on."""
    for piece in output.read(Path(directory), offset):
        yield _line(_record(piece))


async def watch(plane: ControlPlane, project: str, name: str, offset: int) -> AsyncIterator[bytes]:
    """Every event of the job from now on, its output from ``offset`` on. Ends with the job's last state."""
    view = JobView(plane, project, name, offset)
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

    def __init__(self, plane: ControlPlane, project: str, name: str, offset: int) -> None:
        self._plane = plane
        self._place = (project, name)
        self._offset = offset
        self._version = -1
        self._job: Job | None = None
        self._shown: tuple[object, ...] = ()
        self._progress = ""
        self._metrics: MetricsFile | None = None

    def look(self) -> tuple[list[bytes], bool]:
        """The events since the last look, and whether they were the last."""
        self._look_at_job()
        job = self._job
        if job is None:
            return [], True
        events = self._output(Path(job.directory))
        if len(events) >= BATCH:
            return [_line(event) for event in events], False
        events = [*self._look_at_progress(job), *events, *self._look_at_metrics(job)]
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
        if job.state is JobState.QUEUED:
            verb = "provisioning" if job.ephemeral_slice else "waiting for"
            message = f"{verb} slice {job.slice} ({job.accelerator_type}) in {job.zone}"
        elif job.state is JobState.RUNNING:
            message = f"running on slice {job.slice}"
        message = self._plane.trouble or message
        if not message or message == self._progress:
            return []
        self._progress = message
        return [Progress(message=message)]

    def _output(self, directory: Path) -> list[Model]:
        events: list[Model] = []
        for piece in output.read(directory, self._offset):
            self._offset = piece.end
            events.append(_record(piece))
            if len(events) >= BATCH:
                break
        return events

    def _look_at_metrics(self, job: Job) -> list[Model]:
        if self._metrics is None:
            self._metrics = MetricsFile(Path(job.directory) / METRICS_FILE)
        return [MetricsLogged(values=row) for row in self._metrics.read_on()]


def _shown(job: Job) -> tuple[object, ...]:
    return job.state, job.cancel_requested, job.exit_code, job.error


def _record(piece: output.Piece) -> LogRecord:
    return LogRecord(offset=piece.end, stream=piece.stream, time=piece.time, text=piece.text)


def _line(model: Model) -> bytes:
    return model.to_bytes() + b"\n"
