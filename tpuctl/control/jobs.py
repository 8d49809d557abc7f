"""Jobs: what users may ask for, and the steps that bring it about."""

from __future__ import annotations

import secrets
import time
import uuid
from pathlib import Path

from backend.files import write_json
from backend.host.environment import merged, worker_environment
from backend.host.executor import LocalExecutor
from tpuctl.api.errors import (
    AlreadyExists,
    ApiError,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest, JobState
from tpuctl.api.names import check_id, check_project, default_zone, job_name
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control import nodes, operations, telemetry
from tpuctl.control.job_states import JobAction, SliceState, next_action, outcome, shell_status, slice_state
from tpuctl.control.metrics_file import METRICS_FILE, MetricsFile
from tpuctl.control.patience import Patience
from tpuctl.store import JobRow, NodeRow, Reader, Store, Transaction

WORKER_GRACE_SECONDS = 8.0
"""A worker gives its command 5 s to end; one that is still there after this is killed itself."""


def find(reader: Reader, project: str, name: str) -> JobRow:
    """The job. Raises NotFound."""
    job = reader.job(project=project, name=name)
    if job is None:
        raise NotFound.of(job_name(project, name))
    return job


def create(change: Transaction, home: Home, executor: LocalExecutor, project: str, request: JobRequest) -> JobRow:
    """A new job in state QUEUED, with the slice it asks for and its job.json. Raises ApiError."""
    check_project(project)
    name = check_id("job", request.name or invent_name(request.command))
    _check(request)
    if change.job(project=project, name=name) is not None:
        raise AlreadyExists(f"Resource '{job_name(project, name)}' already exists; delete it or use another name")
    uid = uuid.uuid4().hex[:12]
    zone = request.zone or default_zone()
    if request.slice is not None:
        node = nodes.find(change, project, zone, request.slice)
        _check_usable(change, node, home, executor)
    else:
        spec = NodeSpec(accelerator_type=request.accelerator_type)
        node = nodes.create(change, project, zone, name, spec, owner=uid)
    job = JobRow(
        uid=uid,
        project=project,
        zone=zone,
        name=name,
        state=JobState.QUEUED,
        command=request.command,
        working_directory=request.working_directory,
        slice=node.name,
        accelerator_type=node.accelerator_type,
        create_time=time.time(),
        ephemeral_slice=request.slice is None,
        keep_slice=request.keep_slice,
    )
    change.insert(job)
    change.event(job.full_name, f"-> {job.state}", f"on slice {node.name}")
    _write_job_file(home, executor, job, node, request)
    return job


def cancel(change: Transaction, job: JobRow) -> JobRow:
    """Ask for the job's end. Raises FailedPrecondition if it has ended."""
    if job.state.ended:
        raise FailedPrecondition(f"job {job.name} has already ended: it {job.state}")
    change.event(job.full_name, "cancel requested")
    return change.replace(job, cancel_requested=True)


def delete(change: Transaction, job: JobRow) -> None:
    """Forget an ended job. Its directory is removed afterwards. Raises FailedPrecondition while it runs."""
    if not job.state.ended:
        raise FailedPrecondition(f"job {job.name} is {job.state}; cancel it first")
    change.delete(job)
    change.event(job.full_name, "deleted")


def invent_name(command: list[str]) -> str:
    """A name after the script or program that runs."""
    script = next((word for word in command if word.endswith(".py")), command[0])
    stem = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(script).stem.lower())
    stem = stem.strip("-")[:40].strip("-")
    return f"{stem if stem[:1].isalpha() else 'job'}-{secrets.token_hex(3)[:5]}"


class JobReconciler:
    """Brings jobs to their end, one short step at a time."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home) -> None:
        self._store = store
        self._executor = executor
        self._home = home
        self._cancelling = Patience(WORKER_GRACE_SECONDS)

    def step(self, job: JobRow, node: NodeRow | None) -> None:
        """``node`` is the job's slice, if there is one. Raises ApiError."""
        directory = self._home.job(job.uid)
        chips = slice_state(None if node is None else node.state)
        worker = self._executor.worker_state(directory)
        match next_action(job.state, worker, chips, cancel_requested=job.cancel_requested):
            case JobAction.START if node is not None:
                self._start(job, node)
            case JobAction.ADOPT:
                self._run(job)
            case JobAction.DROP:
                self._finish(job, node, JobState.CANCELLED)
            case JobAction.ABANDON:
                self._finish(job, node, JobState.FAILED, FailedPrecondition(f"slice {job.slice} is gone or stopped"))
            case JobAction.CANCEL:
                self._cancel(job, directory)
            case JobAction.FINISH:
                self._take_exit(job, node, chips)
            case JobAction.LOSE if job.cancel_requested:
                self._executor.end_leftovers(directory)
                self._finish(job, node, JobState.CANCELLED)
            case JobAction.LOSE:
                self._executor.end_leftovers(directory)
                error = Internal("the job's worker was killed, and the command with it")
                self._finish(job, node, JobState.FAILED, error)

    def _start(self, job: JobRow, node: NodeRow) -> None:
        said = None if job.ephemeral_slice else telemetry.ask(self._home, node)
        before = telemetry.device_seconds(said, job.name)
        if before:
            with self._store.change() as change:
                job = change.replace(job, device_seconds_before=before)
        try:
            self._executor.start_worker(self._home.job(job.uid))
        except OSError as error:
            self._finish(job, node, JobState.FAILED, Internal(f"cannot start a worker: {error.strerror or error}"))
        else:
            self._run(job)

    def _run(self, job: JobRow) -> None:
        with self._store.change() as change:
            change.replace(job, state=JobState.RUNNING, start_time=time.time())
            change.event(job.full_name, f"{job.state} -> {JobState.RUNNING}", f"on slice {job.slice}")

    def _cancel(self, job: JobRow, directory: Path) -> None:
        if self._cancelling.first_time(job.uid):
            self._executor.end(directory)
        elif self._cancelling.exhausted(job.uid):
            self._executor.end(directory, kill=True)

    def _take_exit(self, job: JobRow, node: NodeRow | None, chips: SliceState) -> None:
        exit = self._executor.worker_exit(self._home.job(job.uid))
        if exit is None:
            return
        state = outcome(exit, cancel_requested=job.cancel_requested)
        lost = chips is SliceState.GONE and state is JobState.FAILED
        error = FailedPrecondition(f"slice {job.slice} was deleted or stopped while the job ran") if lost else None
        self._finish(
            job,
            node,
            state,
            error,
            exit_code=shell_status(exit),
            signal=exit.signal,
            start_time=exit.start_time,
            end_time=exit.end_time,
            host_seconds=exit.end_time - exit.start_time,
        )

    def _finish(
        self, job: JobRow, node: NodeRow | None, state: JobState, error: ApiError | None = None, **values: object
    ) -> None:
        """End the job with all that is known of it, and give back a slice that was made for it: one transaction."""
        directory = self._home.job(job.uid)
        metrics = MetricsFile(directory / METRICS_FILE)
        metrics.read_on()
        if job.start_time is not None and node is not None:
            used = telemetry.device_seconds(telemetry.ask(self._home, node), job.name)
            values["device_seconds"] = None if used is None else max(0.0, used - job.device_seconds_before)
        with self._store.change() as change:
            ended = change.replace(
                job,
                state=state,
                error=None if error is None else error.to_status(),
                metrics=metrics.last,
                metrics_tail=list(metrics.tail),
                artifacts=artifacts(directory),
                **{"end_time": time.time()} | values,
            )
            change.event(job.full_name, f"{job.state} -> {state}", "" if error is None else error.message)
            if ended.ephemeral_slice and not ended.keep_slice:
                self._give_back(change, ended)
        self._cancelling.reset(job.uid)

    def _give_back(self, change: Transaction, job: JobRow) -> None:
        made = change.node(owner_job=job.uid)
        if made is not None and made.state is not NodeState.DELETING:
            operations.begin_delete(change, made)


def artifacts(directory: Path) -> list[str]:
    """The files a job has left, as absolute paths."""
    return sorted(str(path) for path in (directory / "artifacts").rglob("*") if path.is_file())


def _check(request: JobRequest) -> None:
    if (request.slice is None) == (request.accelerator_type is None):
        raise InvalidArgument("give either slice, an existing one, or acceleratorType for a new one")
    folder = Path(request.working_directory)
    if not folder.is_absolute() or not _is_folder(folder):
        raise InvalidArgument.of_fields({"workingDirectory": f"{folder} is not an absolute path of a folder"})
    if any("\0" in word for word in request.command):
        raise InvalidArgument.of_fields({"command": "a word has a NUL character in it"})
    for name, value in request.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArgument.of_fields({"environment": f"{name!r} is not a variable that a process can have"})


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a NUL character in it
        return False


def _check_usable(change: Transaction, node: NodeRow, home: Home, executor: LocalExecutor) -> None:
    """Raises FailedPrecondition if a job cannot be queued on ``node`` now."""
    if slice_state(node.state) is SliceState.GONE:
        raise FailedPrecondition(f"slice {node.name} is {node.state}; use one that is READY")
    for other in change.jobs(project=node.project, zone=node.zone, slice=node.name):
        if not other.state.ended:
            pid = executor.command_pid(home.job(other.uid))
            running = "is queued for it" if pid is None else f"is running on it (pid {pid})"
            advice = "wait for it, cancel it or use another slice"
            raise FailedPrecondition(f"slice {node.name} is busy: job {other.name} {running}; {advice}")


def _write_job_file(home: Home, executor: LocalExecutor, job: JobRow, node: NodeRow, request: JobRequest) -> None:
    """What the worker is to run; the only place where the user's environment is kept."""
    directory = home.job(job.uid)
    worker = worker_environment(home.slice(node.uid), node.accelerator_type, node.name, node.zone, job.name)
    try:
        directory.mkdir(mode=0o700, parents=True)
        write_json(
            directory / "job.json",
            {
                "name": job.name,
                "command": request.command,
                "workingDirectory": request.working_directory,
                "environment": merged(request.environment, worker),
            },
        )
    except OSError as error:
        executor.remove(directory)
        raise ResourceExhausted(f"cannot write {directory}: {error.strerror}; nothing was changed") from error
