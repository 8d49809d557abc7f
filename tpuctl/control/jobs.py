"""Jobs: what users may ask for."""

from __future__ import annotations

import secrets
from pathlib import Path

from backend.host.executor import LocalExecutor
from tpuctl.api.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest, JobState
from tpuctl.api.names import check_id, check_project, default_zone, job_name
from tpuctl.api.nodes import NodeSpec
from tpuctl.control import nodes
from tpuctl.control.hosted import hosted_slice, shares, some_of
from tpuctl.control.job_files import new_worker, worker_places, write_job_files
from tpuctl.control.job_states import SliceState, slice_state
from tpuctl.store import JobRow, NodeRow, Reader, Transaction


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
    uid = change.new_uid()
    zone = request.zone or default_zone()
    if request.slice is not None:
        node = nodes.find(change, project, zone, request.slice)
        _check_usable(change, node, home, executor)
    else:
        spec = NodeSpec(accelerator_type=request.accelerator_type, accelerator_config=request.accelerator_config)
        node = nodes.create(change, project, zone, name, spec, num_slices=request.num_slices, owner=uid)
    hosted = hosted_slice(home, node)
    shared = shares(hosted, request.processes)
    running = some_of(shared, request.workers)
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
        topology=node.topology,
        num_slices=node.num_slices,
        create_time=change.now,
        processes=len(shared),
        hosts=hosted.num_hosts,
        workers=[new_worker(process) for process in running],
        ephemeral_slice=request.slice is None,
        keep_slice=request.keep_slice,
    )
    change.insert(job)
    change.event(job.full_name, f"-> {job.state}", f"on slice {node.name}")
    write_job_files(home, executor, job, hosted, running, request)
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


def _check(request: JobRequest) -> None:
    if (request.slice is None) == (request.accelerator_type is None and request.accelerator_config is None):
        raise InvalidArgument(
            "give either slice, an existing one, or acceleratorType or acceleratorConfig for a new one"
        )
    if request.slice is not None and request.num_slices != 1:
        raise InvalidArgument("numSlices is for a new slice: an existing one has the slices it has")
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
            pids = (executor.command_pid(place) for place in worker_places(home, other).values())
            pid = next((pid for pid in pids if pid is not None), None)
            running = "is queued for it" if pid is None else f"is running on it (pid {pid})"
            advice = "wait for it, cancel it or use another slice"
            raise FailedPrecondition(f"slice {node.name} is busy: job {other.name} {running}; {advice}")
