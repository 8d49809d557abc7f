"""The one thread that acts: it looks at what should be and what is, and takes the next step of everything."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from backend.host.executor import LocalExecutor
from tpuctl.api.errors import ApiError
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState
from tpuctl.api.queued import QueuedState
from tpuctl.control import api_faults, operations
from tpuctl.control.budgets import stop_what_is_spent
from tpuctl.control.fleet import Part
from tpuctl.control.job_reconciler import JobReconciler
from tpuctl.control.maintenance import announce
from tpuctl.control.node_states import is_settled
from tpuctl.control.nodes import NodeReconciler, runs_on
from tpuctl.control.placing import Placing
from tpuctl.control.queued import QueuedReconciler, candidate
from tpuctl.control.queued_states import QUIET, WAITING
from tpuctl.control.schedules import Schedules
from tpuctl.control.vms import Vms
from tpuctl.store import JobRow, NodeRow, OperationRow, QueuedRow, ScheduleRow, Store

BUSY_SECONDS = 0.01
RUNNING_SECONDS = 0.1
IDLE_SECONDS = 0.5
TROUBLE_SECONDS = 1.0
KEEP_SECONDS = 7 * 24 * 3600.0
"""How long finished operations and events are kept."""
FORGET_SECONDS = 24 * 3600.0
"""How often older ones are dropped."""
LOOK_SHARE = 20.0
"""Between two looks at everything there is this many times as long as one takes."""
MOVING = frozenset(state for state in NodeState if not is_settled(state))
ON_THEIR_WAY = frozenset(QueuedState) - QUIET
NOT_ENDED = frozenset(state for state in JobState if not state.ended)
Row = TypeVar("Row", NodeRow, JobRow, QueuedRow, ScheduleRow)
Other = TypeVar("Other")
log = logging.getLogger("tpuctl.control")


def pause(nodes: list[NodeRow], jobs: list[JobRow], queue: list[QueuedRow], held: bool = False) -> float:
    """Seconds until the next look, if nobody wakes the loop before; ``held`` says that faults hold up operations."""
    if any(row.state not in QUIET for row in queue):
        return BUSY_SECONDS
    if any(not is_settled(node.state) for node in nodes) or any(map(_is_starting, jobs)):
        return BUSY_SECONDS
    timed = held or any(node.faults for node in nodes)
    return RUNNING_SECONDS if jobs or timed else IDLE_SECONDS


class Loop:
    """Steps never wait for a process, so one slow slice does not hold up the others."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home, placing: Placing) -> None:
        self._store = store
        self._placing = placing
        self._vms = Vms(store, executor, home)
        self._nodes = NodeReconciler(store, executor, home, placing)
        self._jobs = JobReconciler(store, executor, home, placing)
        self._queue = QueuedReconciler(store, placing)
        self._schedules = Schedules(store, executor, home)
        self.trouble: str | None = None
        """Why a step cannot be taken now; None if all goes well."""
        self._look_at = 0.0
        self._forget_at = 0.0
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something was asked for."""
        self._wake.set()

    def waits_for(self, job: JobRow) -> str | None:
        """What a running job is known to wait for."""
        return self._jobs.waits_for(job)

    def end(self) -> None:
        """Stop after the step under way. Slices and jobs live on."""
        self._ending.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            try:
                seconds = self.step()
            except ApiError as error:
                self.trouble = error.message
                log.error("cannot read what should be, trying again", extra={"reason": error.message})
                seconds = TROUBLE_SECONDS
            self._wake.wait(seconds)

    def step(self, everything: bool = False) -> float:
        """One step of every job and slice; returns the seconds until the next look.

        What is settled is looked at less often the longer that takes, so that many slices leave time for the others.
        """
        begun = time.monotonic()
        full = everything or begun >= self._look_at
        if full:
            for schedule in self._schedules.due():
                self._try(self._schedules.step, schedule, None)
        jobs, slices = self._read_jobs()
        went_well = [self._try(self._jobs.step, job, _slice_of(job, slices)) for job in jobs]
        jobs, _ = self._read_jobs()
        held = self._release_held()
        nodes = self._read_nodes(full)
        went_well += [self._try(partial(self._nodes.step, held=held), node, jobs) for node in nodes]
        places = self._places()
        queue, owned = self._read_queue(full, frozenset(places))
        step = partial(self._queue.step, places=places)
        went_well += [self._try(step, row, owned.get(row.full_name, [])) for row in queue]
        waiting = self._jobs.waiting
        went_well += [self._try(waiting.make, job, place) for job, place in waiting.admitted(places)]
        if not all(went_well):
            return TROUBLE_SECONDS
        if full:
            stop_what_is_spent(self._store, nodes, self._placing.grace)
            announce(self._store, self._placing, nodes)
            went_well.append(self._try_vms(nodes))
            self._look_at = time.monotonic() + LOOK_SHARE * (time.monotonic() - begun)
        self._forget_old(self._store.clock())
        self.trouble = None
        return pause([node for node in nodes if node.operation not in held], jobs, queue, bool(held))

    def _try(self, step: Callable[[Row, Other], None], row: Row, other: Other) -> bool:
        """Take a step; one that fails is logged and taken again later, and does not stop those of the others."""
        try:
            step(row, other)
        except ApiError as error:
            self.trouble = error.message
            log.error("a step failed, trying again", extra={"resource": row.full_name, "reason": error.message})
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
            log.exception("a step failed unexpectedly, trying again", extra={"resource": row.full_name})
        else:
            return True
        return False

    def _try_vms(self, nodes: list[NodeRow]) -> bool:
        """Let users log in; what keeps them from it is told, and does not stop the rest."""
        try:
            self._vms.step(nodes)
        except OSError as error:
            self.trouble = f"nobody can log in to TPU VMs: {error.strerror or error}"
            log.exception("cannot let users log in, trying again")
            return False
        return True

    def _forget_old(self, now: float) -> None:
        """Once a day, drop what has been over for long."""
        if now >= self._forget_at:
            with self._store.change() as change:
                change.forget(now - KEEP_SECONDS)
            self._forget_at = now + FORGET_SECONDS

    def _release_held(self) -> dict[str, OperationRow]:
        """The operations that faults hold up, by their names; those that are over are ended."""
        with self._store.read() as reader:
            held = reader.held_operations()
        over = [one for one in held if one.response is not None and not api_faults.is_held(one.hold, reader.now)]
        for operation in over:
            with self._store.change() as change:
                operations.release(change, operation)
        return {operation.name: operation for operation in held if operation not in over}

    def _read_jobs(self) -> tuple[list[JobRow], list[NodeRow]]:
        """The jobs that have not ended, and their slices."""
        with self._store.read() as reader:
            jobs = reader.jobs(state=NOT_ENDED)
            names = frozenset(job.slice for job in jobs)
            return jobs, reader.nodes(name=names) if names else []

    def _read_nodes(self, full: bool) -> list[NodeRow]:
        """All nodes, or those that something is about to happen to."""
        with self._store.read() as reader:
            if full:
                every = reader.nodes()
                self._placing.sync(every)
                return every
            moving = reader.nodes(state=MOVING)
            return moving + [node for node in reader.nodes_with_faults() if node.state not in MOVING]

    def _places(self) -> dict[str, list[Part]]:
        """Where those who wait can have their nodes now, by uid."""
        with self._store.read() as reader:
            found = [candidate(row, reader.now) for row in reader.queued_resources(state=WAITING)]
        return self._placing.admit([*(one for one in found if one is not None), *self._jobs.waiting.candidates()])

    def _read_queue(self, full: bool, admitted: frozenset[str]) -> tuple[list[QueuedRow], dict[str, list[NodeRow]]]:
        """The queued resources, and the nodes of each by its full name.

        All of them, or those that are on their way and the ``admitted``, by uid, for whom there is room.
        """
        with self._store.read() as reader:
            queue = reader.queued_resources() if full else reader.queued_resources(state=ON_THEIR_WAY)
            if admitted and not full:
                known = {row.uid for row in queue}
                queue += [row for row in reader.queued_resources(uid=admitted) if row.uid not in known]
            owners = frozenset(row.full_name for row in queue)
            nodes = reader.nodes(queued_resource=owners) if owners else []
        owned: dict[str, list[NodeRow]] = {}
        for node in nodes:
            owned.setdefault(node.queued_resource or "", []).append(node)
        return queue, owned


def _is_starting(job: JobRow) -> bool:
    return job.state is JobState.QUEUED and job.waits is None


def _slice_of(job: JobRow, nodes: list[NodeRow]) -> NodeRow | None:
    return next((node for node in nodes if runs_on(job, node)), None)
