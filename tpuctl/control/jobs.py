"""Jobs: what users may ask for."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from pathlib import Path

from backend.host.address import Address
from backend.host.executor import LocalExecutor
from backend.host.workers import HostedSlice, Process
from tpuctl.api.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobPlan, JobRequest, JobState, RestartPolicy
from tpuctl.api.names import check_id, check_project, default_zone, job_name
from tpuctl.api.nodes import NodeSpec, SchedulingConfig
from tpuctl.control import catalogue, nodes
from tpuctl.control.hosted import hosted_slice, shares, some_of
from tpuctl.control.job_files import keep_environment, new_worker, worker_places, write_job_files
from tpuctl.control.job_states import SliceState, slice_state
from tpuctl.control.job_waits import For, refused, waits
from tpuctl.store import JobRow, NodeRow, Reader, Transaction

MOST_NAMED = 3
"""Jobs of those that another comes after."""


def find(reader: Reader, project: str, name: str) -> JobRow:
    """The job. Raises NotFound."""
    job = reader.job(project=project, name=name)
    if job is None:
        raise NotFound.of(job_name(project, name))
    return job


def create_array(
    change: Transaction, home: Home, executor: LocalExecutor, project: str, request: JobRequest, indices: Sequence[int]
) -> list[JobRow]:
    """Jobs NAME-INDEX. Raises ApiError."""
    name = request.name or invent_name(request.command)
    after = named(change, project, request.after)
    each = ({"name": f"{name}-{index}", "array_index": index} for index in dict.fromkeys(indices))
    return [create(change, home, executor, project, request.model_copy(update=one), after) for one in each]


def create(
    change: Transaction,
    home: Home,
    executor: LocalExecutor,
    project: str,
    request: JobRequest,
    after: list[str] | None = None,
) -> JobRow:
    """A new job in state QUEUED, with the slice it asks for and its job.json. Raises ApiError.

    ``after`` are the names of the jobs it comes after, where they have been looked up.
    """
    check_project(project)
    name = check_id("job", request.name or invent_name(request.command))
    check(request)
    if change.job(project=project, name=name) is not None:
        raise AlreadyExists(f"Resource '{job_name(project, name)}' already exists; delete it or use another name")
    zone = first_zone(request)
    if request.after:
        request = request.model_copy(update={"after": after or named(change, project, request.after)})
    job = JobRow(
        uid=change.new_uid(),
        project=project,
        zone=zone,
        name=name,
        state=JobState.QUEUED,
        command=request.command,
        working_directory=request.working_directory,
        slice=request.slice or name,
        accelerator_type="",
        create_time=change.now,
        ephemeral_slice=request.slice is None,
        keep_slice=request.keep_slice,
        plan=plan_of(request).to_json(),
        waits=waits(For.JOBS, _comes_after(request.after)) if request.after else None,
    )
    node: NodeRow | None = None
    check_offered(request)
    if request.slice is not None:
        node = nodes.find(change, project, zone, request.slice)
        job = _wait_for_slice(change, home, executor, job, node)
    elif job.waits is None:
        node, job = _ask_for_slice(change, job)
    hosted = hosted_slice(home, node) if node is not None else imagined_slice(job)
    job, running = prepared(job, hosted)
    change.insert(job)
    on = f"on slice {job.slice}" if job.waits is None else job.waits["reason"]
    change.event(job.full_name, f"-> {job.state}", on)
    if job.waits is not None or request.queue or request.restart is not RestartPolicy.NEVER:
        keep_environment(home, job, request.environment)
    if job.waits is None:
        write_job_files(home, executor, job, hosted, running, request.environment)
    if request.checkpoint_dir is not None:
        _make_folder(request.checkpoint_dir)
    return job


def plan_of(request: JobRequest) -> JobPlan:
    """What of a request is kept for later: not its command, nor its environment."""
    return JobPlan.model_validate({name: getattr(request, name) for name in JobPlan.model_fields})


def node_spec(plan: JobPlan) -> NodeSpec:
    """The slice to make for a job."""
    scheduling = SchedulingConfig(spot=True) if plan.spot else None
    return NodeSpec(
        accelerator_type=plan.accelerator_type,
        accelerator_config=plan.accelerator_config,
        scheduling_config=scheduling,
    )


def first_zone(request: JobRequest) -> str:
    """Where a job is, or its slice is to be made first."""
    return request.zone or next(iter(request.zones), None) or default_zone()


def check_offered(request: JobRequest) -> None:
    """Raises ApiError where a slice is to be made for a job in a zone that does not offer it."""
    if request.slice is None:
        for zone in dict.fromkeys([first_zone(request), *request.zones]):
            catalogue.check_type(catalogue.check_zone(zone), node_spec(request))


def zones_of(job: JobRow) -> list[str]:
    """Where a slice may be made for a job, the one to try first in front."""
    given = job.plan.get("zones") or []
    return list(dict.fromkeys([job.zone, *given]))


def prepared(job: JobRow, hosted: HostedSlice) -> tuple[JobRow, list[Process]]:
    """The job as it runs on a slice, and its processes that run the command. Raises InvalidArgument."""
    plan = JobPlan.model_validate(job.plan)
    shared = shares(hosted, plan.processes)
    running = some_of(shared, plan.workers)
    on = dataclasses.replace(
        job,
        accelerator_type=hosted.kind.name,
        topology=hosted.kind.topology,
        num_slices=hosted.num_slices,
        processes=len(shared),
        hosts=hosted.num_hosts,
        workers=[new_worker(process) for process in running],
    )
    return on, running


def imagined_slice(job: JobRow) -> HostedSlice:
    """The slice that is to be made for a job, as far as it is known."""
    plan = JobPlan.model_validate(job.plan)
    kind = catalogue.check_type(catalogue.check_zone(job.zone), node_spec(plan))
    count = plan.num_slices
    return HostedSlice(Path(), job.uid, job.slice, job.zone, job.project, kind, Address("127.0.0.1", 8470), count)


def _ask_for_slice(change: Transaction, job: JobRow) -> tuple[NodeRow | None, JobRow]:
    """The slice that is made for a job in the first of its zones that has room; or it waits. Raises ApiError."""
    plan = JobPlan.model_validate(job.plan)
    try:
        made = nodes.create(
            change,
            job.project,
            job.zone,
            job.slice,
            node_spec(plan),
            num_slices=plan.num_slices,
            owner=job.uid,
        )
    except ResourceExhausted as error:
        if not plan.queue:
            raise
        return None, dataclasses.replace(job, waits=refused(None, error.message, change.now))
    return made, job


def _wait_for_slice(change: Transaction, home: Home, executor: LocalExecutor, job: JobRow, node: NodeRow) -> JobRow:
    """The job, which waits if others have the slice and it may. Raises FailedPrecondition."""
    if slice_state(node.state) is SliceState.GONE and job.plan.get("restart") == RestartPolicy.NEVER:
        raise FailedPrecondition(f"slice {node.name} is {node.state}; use one that is READY")
    if job.waits is not None:
        return job
    other = next(iter(_users(change, node)), None)
    if other is None:
        gone = slice_state(node.state) is SliceState.GONE
        return dataclasses.replace(job, waits=waits(For.SLICE, f"slice {node.name} is {node.state}")) if gone else job
    if not job.plan.get("queue"):
        raise _busy(home, executor, node, other)
    return dataclasses.replace(job, waits=waits(For.SLICE, f"slice {node.name} is busy: job {other.name} has it"))


def named(reader: Reader, project: str, names: Sequence[str]) -> list[str]:
    """The jobs of these names, and all of an array of that name. Raises NotFound."""
    found: list[str] = []
    for name in names:
        one = reader.job(project=project, name=name)
        array = array_of(reader, project, name) if one is None else []
        found += [row.name for row in array] or [find(reader, project, name).name]
    return list(dict.fromkeys(found))


def array_of(reader: Reader, project: str, name: str) -> list[JobRow]:
    """The jobs of an array, in the order of their numbers; none if there is none."""
    found = [row for row in reader.jobs(project=project) if row.name == f"{name}-{row.plan.get('arrayIndex')}"]
    return sorted(found, key=lambda row: int(row.plan["arrayIndex"]))


def _comes_after(names: Sequence[str]) -> str:
    some = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"it runs after {some}"


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument.of_fields({"checkpointDir": f"{path} cannot be made: {text}"}) from error


def cancel(change: Transaction, job: JobRow) -> JobRow:
    """Ask for the job's end. Raises FailedPrecondition if it has ended."""
    if job.state.ended:
        raise FailedPrecondition(f"job {job.name} has already ended: it {job.state}")
    change.event(job.full_name, "cancel requested")
    return change.replace(job, cancel_requested=True)


def delete(change: Transaction, job: JobRow) -> None:
    """Forget an ended job. Its directory is removed afterwards.

    Raises FailedPrecondition while it runs, and while others wait to come after it, which would fail.
    """
    if not job.state.ended:
        raise FailedPrecondition(f"job {job.name} is {job.state}; end it first: tpuctl cancel job {job.name}")
    for other in change.jobs(project=job.project, state=JobState.QUEUED):
        if other.waits is not None and other.waits["kind"] == For.JOBS and job.name in other.plan.get("after", []):
            what = f"job {other.name} is to run after it and others"
            raise FailedPrecondition(f"{what}; wait for that, or end it: tpuctl cancel job {other.name}")
    change.delete(job)
    change.event(job.full_name, "deleted")


def invent_name(command: list[str]) -> str:
    """A name after the script or program that runs."""
    script = next((word for word in command if word.endswith(".py")), command[0])
    stem = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(script).stem.lower())
    stem = stem.strip("-")[:40].strip("-")
    return f"{stem if stem[:1].isalpha() else 'job'}-{secrets.token_hex(3)[:5]}"


def check(request: JobRequest) -> None:
    """Whatever can be said of a request by itself. Raises InvalidArgument."""
    if (request.slice is None) == (request.accelerator_type is None and request.accelerator_config is None):
        raise InvalidArgument(
            "give either slice, an existing one, or acceleratorType or acceleratorConfig for a new one"
        )
    if request.slice is not None and (request.zones or request.spot):
        raise InvalidArgument("zones and spot are for a new slice")
    if request.max_restarts is not None and request.restart is RestartPolicy.NEVER:
        raise InvalidArgument.of_fields({"maxRestarts": "needs restart: on-preemption, on-failure or always"})
    if request.checkpoint_dir is not None and not Path(request.checkpoint_dir).is_absolute():
        raise InvalidArgument.of_fields({"checkpointDir": f"{request.checkpoint_dir} is not an absolute path"})
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


def _users(change: Transaction, node: NodeRow) -> list[JobRow]:
    """The jobs that have a slice or wait for it."""
    found = change.jobs(project=node.project, zone=node.zone, slice=node.name)
    return [job for job in found if not job.state.ended]


def _busy(home: Home, executor: LocalExecutor, node: NodeRow, other: JobRow) -> FailedPrecondition:
    pids = (executor.command_pid(place) for place in worker_places(home, other).values())
    pid = next((pid for pid in pids if pid is not None), None)
    running = "is queued for it" if pid is None else f"is running on it (pid {pid})"
    advice = "wait for it, cancel it or use another slice"
    return FailedPrecondition(f"slice {node.name} is busy: job {other.name} {running}; {advice}")
