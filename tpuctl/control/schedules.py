"""Which schedules are there, and what do they start? A run is not started while the one before it goes on."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

from backend.files import read_json, write_json
from backend.host.executor import LocalExecutor
from tpuctl.api.errors import AlreadyExists, ApiError, FailedPrecondition, NotFound, ResourceExhausted
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest
from tpuctl.api.names import check_id, check_project
from tpuctl.api.schedules import Schedule, ScheduleRequest
from tpuctl.control import due_times, jobs
from tpuctl.control.job_files import ENVIRONMENT
from tpuctl.control.views import moment
from tpuctl.store import JobRow, Reader, ScheduleRow, Store, Transaction

LONGEST_NAME = 40
"""Of a schedule: its jobs have the time of the run after it, and their number where they are an array."""


def find(reader: Reader, project: str, name: str) -> ScheduleRow:
    """Raises NotFound."""
    for row in reader.schedules(project=project, name=name):
        return row
    raise NotFound(f"there is no schedule {name!r}; `tpuctl list schedules` shows those there are")


def create(change: Transaction, home: Home, project: str, asked: ScheduleRequest) -> ScheduleRow:
    """Raises ApiError."""
    check_project(project)
    name = check_id("schedule", asked.name)
    longest = LONGEST_NAME - (len(str(max(asked.indices))) if asked.indices else 0)
    if len(name) > longest:
        raise FailedPrecondition(f"schedule {name}: use a name of at most {longest} letters")
    if change.schedules(project=project, name=name):
        raise AlreadyExists(f"there is a schedule {name} already; delete it or use another name")
    next_time = due_times.first(asked.every, change.now)
    jobs.check(asked.job)
    jobs.check_offered(asked.job)
    row = ScheduleRow(
        uid=change.new_uid(),
        project=project,
        name=name,
        every=asked.every,
        job=asked.job.model_copy(update={"environment": {}, "name": None}).to_json(),
        next_time=next_time,
        create_time=change.now,
        indices=asked.indices,
    )
    change.insert(row)
    change.event(row.full_name, "created", asked.every)
    directory = home.schedule(row.uid)
    try:
        directory.mkdir(mode=0o700, parents=True)
        write_json(directory / ENVIRONMENT, asked.job.environment)
    except OSError as error:
        raise ResourceExhausted(f"cannot write {directory}: {error.strerror}; nothing was changed") from error
    return row


def delete(change: Transaction, home: Home, row: ScheduleRow) -> None:
    """Its jobs stay."""
    change.delete(row)
    change.event(row.full_name, "deleted")
    shutil.rmtree(home.schedule(row.uid), ignore_errors=True)


def schedule_view(row: ScheduleRow) -> Schedule:
    given = {name: getattr(row, name) for name in Schedule.model_fields if hasattr(row, name)}
    times = {name: moment(getattr(row, name)) for name in ("next_time", "last_time", "create_time")}
    return Schedule.model_validate(given | times | {"command": row.job["command"]})


class Schedules:
    """Starts what is due; for the loop's thread."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home) -> None:
        self._store = store
        self._executor = executor
        self._home = home

    def due(self) -> list[ScheduleRow]:
        with self._store.read() as reader:
            return [row for row in reader.schedules() if row.next_time <= reader.now]

    def step(self, row: ScheduleRow, _: object = None) -> None:
        """Start a run of a schedule that is due, if the one before it has ended. Raises ApiError."""
        try:
            with self._store.change() as change:
                self._run(change, row)
        except ApiError as error:
            with self._store.change() as change:
                if change.schedules(uid=row.uid) == [row]:
                    missed, following = due_times.after(row.every, row.next_time, change.now)
                    values = {"missed": row.missed + missed, "next_time": following, "error": error.message}
                    change.replace(row, **values)
                    change.event(row.full_name, "cannot be started", error.message)

    def _run(self, change: Transaction, row: ScheduleRow) -> None:
        if change.schedules(uid=row.uid) != [row]:
            return
        missed, following = due_times.after(row.every, row.next_time, change.now)
        changes: dict[str, object] = {"next_time": following, "missed": row.missed + missed}
        before = next((job for job in _last_run(change, row) if not job.state.ended), None)
        if before is not None:
            change.replace(row, **changes, skipped=row.skipped + 1)
            change.event(row.full_name, "skipped", f"job {before.name} has not ended")
            return
        environment = read_json(self._home.schedule(row.uid) / ENVIRONMENT)
        if environment is None:
            raise FailedPrecondition(f"{self._home.schedule(row.uid)} is gone; delete the schedule and make it again")
        stamp = datetime.fromtimestamp(change.now, UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{row.name}-{stamp}"
        request = JobRequest.model_validate(row.job | {"name": name, "environment": environment})
        where = change, self._home, self._executor, row.project, request
        if row.indices is None:
            jobs.create(*where)
        else:
            jobs.create_array(*where, row.indices)
        changes |= {"last_time": change.now, "last_job": name, "runs": row.runs + 1, "error": None}
        change.replace(row, **changes)
        what = f"job {name}" if row.indices is None else f"{len(set(row.indices))} jobs {name}-INDEX"
        change.event(row.full_name, "started", what + (f"; {missed} missed" if missed else ""))


def _last_run(reader: Reader, row: ScheduleRow) -> list[JobRow]:
    """The jobs of the last run that are still there."""
    if row.last_job is None:
        return []
    if row.indices is not None:
        return jobs.array_of(reader, row.project, row.last_job)
    return reader.jobs(project=row.project, name=row.last_job)
