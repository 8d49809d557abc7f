"""What does a job keep on disk? A directory for each worker: what to run, its output, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.driver.membership import Membership, membership
from backend.errors import TpuError
from backend.files import read_json, write_json
from backend.host.directories import attempt_directory, worker_directory
from backend.host.environment import merged, worker_environment
from backend.host.executor import Exit, LocalExecutor, WorkerState
from backend.host.metadata import metadata
from backend.host.workers import HostedSlice, Process
from tpuctl.api.errors import FailedPrecondition, ResourceExhausted
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobPlan, JobWorker, RestartPolicy, WorkerPhase
from tpuctl.api.names import worker_label
from tpuctl.control.job_states import shell_status
from tpuctl.control.metrics_file import METRICS_FILE
from tpuctl.store import JobRow

ENVIRONMENT = "environment.json"
"""The environment of a job that starts later, or again."""


def worker_place(home: Home, job: JobRow, number: int, attempt: int | None = None) -> Path:
    """The directory of one of the workers of an attempt, by default the present one.

    A job of an earlier version has its only one in the job's own.
    """
    directory = attempt_place(home, job, attempt)
    return worker_directory(directory, number) if job.workers else directory


def worker_places(home: Home, job: JobRow, attempt: int | None = None) -> dict[int, Path]:
    """The directories of the workers that run the job's command, by their numbers."""
    numbers = [worker["index"] for worker in job.workers] or [0]
    return {number: worker_place(home, job, number, attempt) for number in numbers}


def attempt_place(home: Home, job: JobRow, attempt: int | None = None) -> Path:
    """The directory of an attempt, by default the present one."""
    return attempt_directory(home.job(job.uid), job.attempt if attempt is None else attempt)


def new_worker(process: Process) -> dict[str, Any]:
    """A worker as it is stored, before it runs."""
    worker, hosts = process.worker, len(process.workers)
    return JobWorker(index=process.index, name=worker.name, ip_address=worker.ip_address, hosts=hosts).to_json()


def ended_worker(worker: dict[str, Any], exit: Exit | None) -> dict[str, Any]:
    """A worker as it is stored once it has ended; ``exit`` is None for one that could not say how."""
    if exit is None:
        return worker | {"state": WorkerPhase.LOST.value}
    status = shell_status(exit)
    state = WorkerPhase.SUCCEEDED if status == 0 else WorkerPhase.FAILED
    return worker | {"state": state.value, "exitCode": status, "signal": exit.signal}


def worker_now(executor: LocalExecutor, place: Path, worker: dict[str, Any]) -> dict[str, Any]:
    """The same of one whose job runs."""
    match executor.worker_state(place):
        case WorkerState.ABSENT:
            return worker
        case WorkerState.RUNNING:
            return worker | {"state": WorkerPhase.RUNNING.value, "pid": executor.command_pid(place)}
    return ended_worker(worker, executor.worker_exit(place))


def artifacts(directory: Path) -> list[str]:
    """The files an attempt has left, as absolute paths."""
    return sorted(str(path) for path in (directory / "artifacts").rglob("*") if path.is_file())


def metrics_file(places: Mapping[int, Path]) -> Path:
    """Where the first worker logs what `status` shows of the job."""
    return places[min(places)] / METRICS_FILE


def notice_seconds(place: Path) -> float:
    """How long the job of the worker at ``place`` lets others wait before it is told who is late."""
    said = read_json(place / "job.json") or {}
    try:
        return membership(environment=said.get("environment", {})).notice_seconds
    except TpuError:  # the worker says so itself
        return Membership.notice_seconds


def keep_environment(home: Home, job: JobRow, environment: Mapping[str, str]) -> None:
    """For attempts to come; only the user can read it. Raises ResourceExhausted."""
    directory = home.job(job.uid)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(directory / ENVIRONMENT, dict(environment))
    except OSError as error:
        raise ResourceExhausted(f"cannot write {directory}: {error.strerror}; nothing was changed") from error


def kept_environment(home: Home, job: JobRow) -> dict[str, str]:
    """Raises FailedPrecondition if it is not there any more."""
    kept = read_json(home.job(job.uid) / ENVIRONMENT)
    if kept is None:
        raise FailedPrecondition(f"{home.job(job.uid) / ENVIRONMENT} is gone: the job cannot be started again")
    return {str(name): str(value) for name, value in kept.items()}


def write_job_files(
    home: Home,
    executor: LocalExecutor,
    job: JobRow,
    hosted: HostedSlice,
    running: list[Process],
    environment: Mapping[str, str],
) -> None:
    """What each worker of the present attempt is to run. Another time, it writes the same again."""
    directory = attempt_place(home, job)
    given_to_all = {**environment, **attempt_environment(job)}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for process in running:
            place = worker_directory(directory, process.index)
            place.mkdir(mode=0o700, exist_ok=True)
            given = beside_label(given_to_all, process.index) if len(running) > 1 else given_to_all
            write_json(
                place / "job.json",
                {
                    "name": job.name,
                    "command": job.command,
                    "workingDirectory": job.working_directory,
                    "environment": merged(given, worker_environment(hosted, process, job.name)),
                    "metadata": {
                        "host": process.worker.ip_address,
                        "values": metadata(hosted, process),
                        "slice": str(hosted.directory),
                    },
                },
            )
    except OSError as error:
        executor.remove(directory)
        raise ResourceExhausted(f"cannot write {directory}: {error.strerror}; nothing was changed") from error


def attempt_environment(job: JobRow) -> dict[str, str]:
    """What a job's command is told of its attempts, of where it keeps checkpoints, and of its place in an array."""
    plan = JobPlan.model_validate(job.plan)
    told = {"TPUCTL_ATTEMPT": str(job.attempt)} if plan.restart is not RestartPolicy.NEVER else {}
    if plan.checkpoint_dir is not None:
        told["TPUCTL_CHECKPOINT_DIR"] = plan.checkpoint_dir
    if plan.array_index is not None:
        told["TPUCTL_ARRAY_INDEX"] = str(plan.array_index)
    return told


def beside_label(environment: Mapping[str, str], worker: int) -> dict[str, str]:
    """The environment of one of several workers: what it draws as wide as the terminal finds room beside its label."""
    columns = environment.get("COLUMNS", "")
    if not (columns.isascii() and columns.isdigit()):
        return dict(environment)
    return {**environment, "COLUMNS": str(max(1, int(columns) - len(worker_label(worker)) - 1))}
