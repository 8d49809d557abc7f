"""How does a job that waits get its slice? By its turn on one that is there, or by room for one that is made for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from backend.host.executor import LocalExecutor
from tpuctl.api.errors import AlreadyExists, ApiError, FailedPrecondition, ResourceExhausted
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobPlan, JobState, RestartPolicy
from tpuctl.api.nodes import NodeState
from tpuctl.control import catalogue, nodes, operations
from tpuctl.control.fleet import Part
from tpuctl.control.hosted import hosted_slice
from tpuctl.control.job_files import kept_environment, write_job_files
from tpuctl.control.job_notice import notice
from tpuctl.control.job_waits import (
    For,
    Seen,
    WaitAction,
    contends,
    holds_slice,
    is_ahead,
    refused,
    seen,
    wait_action,
    waits,
)
from tpuctl.control.jobs import node_spec, prepared, zones_of
from tpuctl.control.placing import Placing, is_spot, wanted_by
from tpuctl.control.queue_order import Candidate
from tpuctl.control.repair import REPAIR
from tpuctl.control.repair import ask as ask_for_repair
from tpuctl.store import JobRow, NodeRow, Reader, Store

Finish = Callable[..., None]
_WHERE = "/in/"


class WaitingJobs:
    """One short step at a time; ``finish`` ends a job that can't have what it waits for."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home, placing: Placing, finish: Finish) -> None:
        self._store = store
        self._executor = executor
        self._home = home
        self._placing = placing
        self._finish = finish
        self._wanting: dict[str, JobRow] = {}

    def step(self, job: JobRow, node: NodeRow | None) -> None:
        """Raises ApiError."""
        own = job.uid if job.ephemeral_slice else None
        with self._store.read() as reader:
            now = reader.now
            before, never = _comes_after(reader, job)
            user = _user_before(reader, job, now)
        if never is not None:
            self._finish(job, node, JobState.FAILED, FailedPrecondition(never), waits=None)
            return
        until = None if job.waits is None else job.waits["until"]
        due = before is None and (until is None or until <= now)
        how = seen(
            node,
            own,
            noticed=notice(node, now) is not None,
            in_repair=node is not None and any(fate["kind"] == REPAIR for fate in node.faults),
            taken=user is not None,
        )
        action = wait_action(how, own=own is not None, due=due)
        if action is WaitAction.MAKE and due:
            self._wanting[job.uid] = job
        elif action is WaitAction.UNMAKE and node is not None:
            self._unmake(node)
        elif action is WaitAction.REPAIR and node is not None:
            self._repair(node)
        elif action is WaitAction.TAKE and node is not None:
            self._take(job, node)
        if action is WaitAction.KEEP and before is None and (due or job.waits is None):
            self._note(job, _reason(job, how, node, user))

    def candidates(self) -> list[Candidate]:
        """Those that want a slice to be made, one for each zone that it may be in."""
        found = []
        for job in self._wanting.values():
            plan = JobPlan.model_validate(job.plan)
            spec = node_spec(plan)
            given = spec.to_json()
            for zone in zones_of(job):
                kind = catalogue.check_type(zone, spec)
                wanted = wanted_by(job.project, zone, kind, plan.num_slices, given)
                uid, since = f"{job.uid}{_WHERE}{zone}", job.create_time
                found.append(Candidate(uid, job.full_name, job.project, since, wanted, is_spot(given), plan.priority))
        return found

    def admitted(self, places: dict[str, list[Part]]) -> list[tuple[JobRow, tuple[str, list[Part]]]]:
        """Those for whom there is room, with zone and place, as ``places`` of candidates by their uids say."""
        wanting, self._wanting = self._wanting, {}
        found = []
        for uid, parts in places.items():
            job = wanting.pop(uid.partition(_WHERE)[0], None)
            if job is not None:
                found.append((job, (uid.partition(_WHERE)[2], parts)))
        return found

    def make(self, job: JobRow, place: tuple[str, list[Part]]) -> None:
        """Make its slice, in that zone and there. Raises ApiError."""
        zone, parts = place
        environment = kept_environment(self._home, job)
        plan = JobPlan.model_validate(job.plan)
        with self._store.change() as change:
            if change.job(uid=job.uid) != job:
                return
            try:
                made = nodes.create(
                    change,
                    job.project,
                    zone,
                    job.slice,
                    node_spec(plan),
                    num_slices=plan.num_slices,
                    owner=job.uid,
                    placement=[part.to_json() for part in parts],
                )
            except (ResourceExhausted, AlreadyExists) as error:
                change.replace(job, waits=refused(job.waits, error.message, change.now))
                return
            hosted = hosted_slice(self._home, made)
            ready, running = prepared(dataclasses.replace(job, zone=zone), hosted)
            write_job_files(self._home, self._executor, ready, hosted, running, environment)
            change.replace(job, waits=None, zone=zone, **_shape(ready))
            change.event(job.full_name, "slice is being made", f"{made.name} in {zone}")
        self._placing.fleet.take(made.uid, parts)

    def _unmake(self, node: NodeRow) -> None:
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is not None and current.state is not NodeState.DELETING:
                operations.begin_delete(change, current)

    def _repair(self, node: NodeRow) -> None:
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is not None and current.state is NodeState.READY:
                ask_for_repair(change, current)

    def _take(self, job: JobRow, node: NodeRow) -> None:
        """The slice is there, and it is the job's turn."""
        hosted = hosted_slice(self._home, node)
        try:
            ready, running = prepared(job, hosted)
            environment = kept_environment(self._home, job)
        except ApiError as error:
            self._finish(job, node, JobState.FAILED, error, waits=None)
            return
        write_job_files(self._home, self._executor, ready, hosted, running, environment)
        with self._store.change() as change:
            current = change.job(uid=job.uid)
            if current != job or _user_before(change, job, change.now) is not None:
                return
            change.replace(job, waits=None, **_shape(ready))
            change.event(job.full_name, "has its slice", node.name)

    def _note(self, job: JobRow, reason: str) -> None:
        """Keep why it waits, if that has changed."""
        if job.waits is not None and job.waits["reason"] == reason:
            return
        with self._store.change() as change:
            if change.job(uid=job.uid) == job:
                change.replace(job, waits=waits(For.SLICE, reason))
                change.event(job.full_name, "waits", reason)


def is_patient(job: JobRow) -> bool:
    """Whether a job waits for its slice to come back."""
    return bool(job.plan) and job.plan.get("restart") != RestartPolicy.NEVER


def _comes_after(reader: Reader, job: JobRow) -> tuple[str | None, str | None]:
    """The name of one that it comes after and that has not succeeded yet, and why that one will not."""
    if job.waits is None or job.waits["kind"] != For.JOBS:
        return None, None
    for name in job.plan.get("after", []):
        other = reader.job(project=job.project, name=name)
        if other is None or (other.state.ended and other.state is not JobState.SUCCEEDED):
            return name, f"job {name}, which it was to run after, {'was deleted' if other is None else other.state}"
        if not other.state.ended:
            return name, None
    return None, None


def _user_before(reader: Reader, job: JobRow, now: float) -> JobRow | None:
    """A job that has the slice, or that gets it before this one."""
    for other in reader.jobs(project=job.project, zone=job.zone, slice=job.slice):
        if other.uid != job.uid and (holds_slice(other) or (contends(other, now) and is_ahead(other, job))):
            return other
    return None


def _reason(job: JobRow, how: Seen, node: NodeRow | None, user: JobRow | None) -> str:
    match how:
        case Seen.TAKEN if user is not None:
            does = "has it" if holds_slice(user) else "is before it"
            return f"slice {job.slice} is busy: job {user.name} {does}"
        case Seen.TAKEN:
            return f"there is another slice {job.slice}"
        case Seen.ABSENT:
            return f"slice {job.slice} is gone; it goes on once there is one again"
        case Seen.NOTICED:
            return f"slice {job.slice} is about to be preempted"
        case Seen.BROKEN | Seen.IN_REPAIR:
            return f"slice {job.slice} has failed parts until it is repaired: tpuctl fault repair {job.slice}"
    return f"slice {job.slice} is {node.state if node else 'gone'}"


def _shape(job: JobRow) -> dict[str, Any]:
    """What a job has of its slice."""
    names = ("accelerator_type", "topology", "num_slices", "processes", "hosts", "workers")
    return {name: getattr(job, name) for name in names}
