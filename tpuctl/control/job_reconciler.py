"""How is a job brought to its end? One short step at a time, whoever was killed in between."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from backend.host.executor import LocalExecutor, WorkerState
from backend.host.metadata import MAINTENANCE, PREEMPTED
from backend.host.output import LOG_FILE, append
from backend.runtime.parties import Trouble
from tpuctl.api.errors import ApiError, DeadlineExceeded, FailedPrecondition, Internal, from_status
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobPlan, JobState, JobWorker, WorkerPhase
from tpuctl.api.nodes import NodeState
from tpuctl.control import operations, telemetry
from tpuctl.control.attempts import ended_after, ended_attempt, total
from tpuctl.control.job_files import artifacts, attempt_place, ended_worker, metrics_file, worker_place, worker_places
from tpuctl.control.job_notice import due_at_step, notice, step_reached, waits_for_step
from tpuctl.control.job_states import (
    Ends,
    JobAction,
    SliceState,
    at_fault,
    exit_to_tell,
    first_failure,
    how_it_ended,
    next_action,
    outcome,
    shell_status,
    slice_state,
    who_failed,
)
from tpuctl.control.job_waits import For, waits
from tpuctl.control.metrics_file import MetricsFile
from tpuctl.control.patience import Patience
from tpuctl.control.placing import Placing
from tpuctl.control.preemption import preempted_at
from tpuctl.control.restarts import Why, pause, restarts, why_ended
from tpuctl.control.stalled import Stalls
from tpuctl.control.waiting_jobs import WaitingJobs, is_patient
from tpuctl.store import JobRow, NodeRow, Store, Transaction

FRESH = {"state": WorkerPhase.QUEUED.value, "exitCode": None, "signal": None, "pid": None}
"""A worker before another attempt."""
WORKER_GRACE_SECONDS = 8.0
"""A worker gives its command 5 s to end; one that is still there after this is killed itself."""


class JobReconciler:
    """Brings jobs to their end, one short step at a time."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home, placing: Placing) -> None:
        self._store = store
        self._executor = executor
        self._home = home
        self._ending = Patience(WORKER_GRACE_SECONDS)
        self._stalls = Stalls(home, executor)
        self.waiting = WaitingJobs(store, executor, home, placing, self._finish)

    def step(self, job: JobRow, node: NodeRow | None) -> None:
        """``node`` is the job's slice, if there is one. Raises ApiError."""
        if job.state is JobState.RUNNING:
            job = self._watch_over(job, node)
        chips = slice_state(None if node is None else node.state)
        directories = worker_places(self._home, job)
        states = {number: self._executor.worker_state(place) for number, place in directories.items()}
        ends = {
            number: self._executor.worker_exit(directories[number])
            for number, state in states.items()
            if state in (WorkerState.EXITED, WorkerState.LOST)
        }
        failed = _failed(job, ends)
        running = [number for number, state in states.items() if state is WorkerState.RUNNING]
        broken = (failed is not None and job.notice_time is None) or job.error is not None
        action = next_action(
            job.state,
            states.values(),
            chips,
            cancel_requested=job.cancel_requested,
            failed=broken,
            waiting=job.waits is not None or (chips is SliceState.GONE and is_patient(job)),
        )
        match action:
            case JobAction.WAIT:
                self.waiting.step(job, node)
            case JobAction.KEEP if job.state is JobState.RUNNING and node is not None:
                self._look(job, node, running)
            case JobAction.START if node is not None:
                self._start(job, node)
            case JobAction.ADOPT:
                self._run(job, [] if job.cancel_requested else list(directories))
            case JobAction.DROP:
                self._finish(job, node, JobState.CANCELLED, waits=None)
            case JobAction.ABANDON:
                self._finish(job, node, JobState.FAILED, FailedPrecondition(f"slice {job.slice} is gone or stopped"))
            case JobAction.END:
                self._note_failure(job, node, chips, failed, ends)
                self._end(job, running)
            case JobAction.FINISH:
                self._take_ends(job, node, chips, {number: ends.get(number) for number in directories}, failed)

    def _start(self, job: JobRow, node: NodeRow) -> None:
        said = None if job.ephemeral_slice and job.attempt == 1 else telemetry.ask(self._home, node)
        before = telemetry.device_seconds(said, job.name)
        if before:
            with self._store.change() as change:
                job = change.replace(job, device_seconds_before=before)
        self._run(job, list(worker_places(self._home, job)))

    def _run(self, job: JobRow, workers: list[int]) -> None:
        """Start those of ``workers`` that have not been; one that cannot be ends the job."""
        failure: dict[str, object] = {}
        for number in workers:
            try:
                self._executor.start_worker(worker_place(self._home, job, number))
            except OSError as error:
                reason = Internal(f"cannot start worker {number}: {error.strerror or error}")
                failure = {"failed_worker": number, "error": reason.to_status()}
                break
        with self._store.change() as change:
            change.replace(job, state=JobState.RUNNING, start_time=change.now, **failure)
            change.event(job.full_name, f"{job.state} -> {JobState.RUNNING}", f"on slice {job.slice}")

    def _watch_over(self, job: JobRow, node: NodeRow | None) -> JobRow:
        """Tell a running job's workers of a preemption to come; see to it that it does not run too long."""
        now = self._store.clock()
        if node is not None and waits_for_step(node):
            node = self._reach_step(job, node)
        seconds = notice(node, now)
        if seconds is not None and node is not None and job.notice_time is None:
            return self._give_notice(job, node, seconds)
        limit = job.plan.get("timeout")
        if limit is None or job.error is not None or job.cancel_requested or job.start_time is None:
            return job
        if now - job.start_time + (total(job.attempts, "hostSeconds") or 0.0) < limit:
            return job
        with self._store.change() as change:
            change.event(job.full_name, "timed out", f"after {limit:g} s")
            return change.replace(job, error=DeadlineExceeded(f"timed out: it has run for {limit:g} s").to_status())

    def _reach_step(self, job: JobRow, node: NodeRow) -> NodeRow:
        """The node, which is preempted when its job has reached a step."""
        reached = step_reached(self._rows(job))
        if reached is None:
            return node
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is None:
                return node
            fates = due_at_step(current, *reached, change.now)
            return current if fates == current.faults else change.replace(current, faults=fates)

    def _rows(self, job: JobRow) -> list[dict[str, float]]:
        """What the present attempt has logged so far."""
        return MetricsFile(metrics_file(worker_places(self._home, job))).read_on()

    def _give_notice(self, job: JobRow, node: NodeRow, seconds: float) -> JobRow:
        with contextlib.suppress(OSError):
            flag = MAINTENANCE if preempted_at(node) is None else PREEMPTED
            (self._home.slice(node.uid) / flag).touch()
        for place in worker_places(self._home, job).values():
            if self._executor.worker_state(place) is WorkerState.RUNNING:
                self._executor.give_notice(place, seconds)
        with self._store.change() as change:
            change.event(job.full_name, "preemption notice", f"slice {job.slice} goes in {seconds:.1f} s")
            return change.replace(job, notice_time=change.now)

    def _look(self, job: JobRow, node: NodeRow, running: list[int]) -> None:
        """See to it that a job that cannot go on is ended, and say why to those who watch it; or what it waits for."""
        found = self._stalls.look(job, node, running)
        if found is None:
            return
        for number in running:
            said = f"{'ending the job' if found.final else 'waiting'}: {found.text}"
            self._say(worker_place(self._home, job, number), said)
        if not found.final:
            return
        with self._store.change() as change:
            change.replace(job, error=FailedPrecondition(found.text).to_status())
            change.event(job.full_name, "cannot go on", found.text)

    def waits_for(self, job: JobRow) -> str | None:
        """What a running job has been told to wait for. Any thread."""
        return self._stalls.told(job)

    def _say(self, place: Path, text: str) -> None:
        """Add a line to what a worker writes to stderr."""
        with contextlib.suppress(OSError):
            descriptor = os.open(place / LOG_FILE, os.O_WRONLY | os.O_APPEND)
            try:
                append(descriptor, "stderr", time.time(), f"tpuctl: {text}\n")
            finally:
                os.close(descriptor)

    def _note_failure(
        self, job: JobRow, node: NodeRow | None, chips: SliceState, failed: int | None, ends: Ends
    ) -> None:
        """Write down which worker is to blame and why, before the others end for it."""
        if failed is None or job.failed_worker is not None:
            return
        blamed, error = self._why(job, node, chips, failed, ends)
        with self._store.change() as change:
            change.replace(job, failed_worker=blamed, error=None if error is None else error.to_status())
            change.event(job.full_name, f"worker {failed} {how_it_ended(ends[failed])}", "ending the others")

    def _end(self, job: JobRow, workers: list[int]) -> None:
        for number in workers:
            key, directory = f"{job.uid}/{number}", worker_place(self._home, job, number)
            if self._ending.first_time(key):
                self._executor.end(directory)
            elif self._ending.exhausted(key):
                self._executor.end(directory, kill=True)

    def _take_ends(self, job: JobRow, node: NodeRow | None, chips: SliceState, ends: Ends, failed: int | None) -> None:
        """All workers have ended: see to it that nothing is left of them, and end the job as they did."""
        for number, exit in ends.items():
            if exit is None:
                self._executor.end_leftovers(worker_place(self._home, job, number))
        failed = _failed(job, ends)
        stalled = _is_stalled(job)
        state = outcome(failed, stalled=stalled, cancel_requested=job.cancel_requested)
        blamed, error = self._why(job, node, chips, failed, ends) if state is JobState.FAILED else (failed, None)
        timed_out = job.error is not None and job.error.get("code") == DeadlineExceeded.code
        why = why_ended(
            state,
            node,
            job.start_time or job.create_time,
            noticed=job.notice_time is not None,
            slice_gone=chips is SliceState.GONE,
            timed_out=timed_out,
        )
        if state is JobState.FAILED and why is Why.PREEMPTED and not timed_out:
            error = FailedPrecondition(f"slice {job.slice} was preempted")
        known = [exit for exit in ends.values() if exit is not None]
        told = None if stalled else exit_to_tell(failed, ends)
        times: dict[str, object] = {}
        if known:
            start, end = min(exit.start_time for exit in known), max(exit.end_time for exit in known)
            times = {"start_time": start, "end_time": end, "host_seconds": end - start}
        self._finish(
            job,
            node,
            state,
            error,
            why=why,
            failed_worker=blamed,
            workers=[ended_worker(worker, ends[worker["index"]]) for worker in job.workers],
            exit_code=None if told is None else shell_status(told),
            signal=None if told is None else told.signal,
            **times,
        )

    def _why(
        self, job: JobRow, node: NodeRow | None, chips: SliceState, failed: int | None, ends: Ends
    ) -> tuple[int | None, ApiError | None]:
        """The worker to blame for a job that failed, and what is said of it.

        Nothing is said of a job whose only command failed, and says so itself.
        """
        if chips is SliceState.GONE:
            return failed, FailedPrecondition(f"slice {job.slice} was deleted or stopped while the job ran")
        if job.error is not None:
            return failed, from_status(job.error)
        trouble = None if node is None else self._trouble(job, node)
        exit = None if failed is None else ends.get(failed)
        if len(job.workers) > 1:
            message = who_failed(failed, exit, trouble)
        else:
            said = "the job's worker was killed, and the command with it" if exit is None else ""
            message = "\n".join(filter(None, (said, None if trouble is None else trouble.text)))
        if not message:
            return failed, None
        blamed = at_fault(failed, exit, trouble)
        return blamed, Internal(message) if exit is None else FailedPrecondition(message)

    def _trouble(self, job: JobRow, node: NodeRow) -> Trouble | None:
        """What the slice has to say about the job's end: of its launches, or of parts of it that do not work."""
        if node.failure_time is not None and node.failure_time >= (job.start_time or job.create_time):
            return Trouble(f"the runtime of slice {node.name} ended while the job ran; what was in its HBM is lost")
        said = telemetry.trouble(telemetry.ask(self._home, node), job.name)
        if said is None and node.health_description is not None:
            return Trouble(f"slice {node.name} is unhealthy: {node.health_description}")
        return said

    def _finish(
        self,
        job: JobRow,
        node: NodeRow | None,
        state: JobState,
        error: ApiError | None = None,
        why: Why | None = None,
        **values: Any,
    ) -> None:
        """End the job with all that is known of it, and give back a slice that was made for it: one transaction.

        Or only the attempt, if another one follows.
        """
        metrics = MetricsFile(metrics_file(worker_places(self._home, job)))
        metrics.read_on()
        if job.start_time is not None and node is not None:
            used = telemetry.device_seconds(telemetry.ask(self._home, node), job.name)
            values["device_seconds"] = None if used is None else max(0.0, used - job.device_seconds_before)
        values |= {
            "metrics": metrics.last,
            "metrics_tail": list(metrics.tail),
            "artifacts": artifacts(attempt_place(self._home, job)),
        }
        text = "" if error is None else error.message
        with self._store.change() as change:
            values = {"end_time": change.now} | values
            attempts = job.attempts
            if why is not None:
                attempts = [*attempts, ended_attempt(job, why, text.partition("\n")[0], **values)]
            if why is not None and restarts(JobPlan.model_validate(job.plan), why, job.attempt - 1):
                self._again(change, job, why, attempts)
            else:
                if job.attempts:
                    sums = {"host_seconds": "hostSeconds", "device_seconds": "deviceSeconds"}
                    values |= {name: total(attempts, key) for name, key in sums.items()} | {"attempts": attempts}
                status = None if error is None else error.to_status()
                ended = change.replace(job, state=state, error=status, **values)
                change.event(job.full_name, f"{job.state} -> {state}", text)
                if ended.ephemeral_slice and not ended.keep_slice:
                    self._give_back(change, ended)
        self._stalls.forget(job)
        for worker in job.workers:
            self._ending.reset(f"{job.uid}/{worker['index']}")

    def _again(self, change: Transaction, job: JobRow, why: Why, attempts: list[dict[str, Any]]) -> None:
        """Have another attempt follow one that has ended."""
        seconds = pause(ended_after(attempts))
        reason = f"attempt {job.attempt} ended: {why}"
        again = change.replace(
            job,
            state=JobState.QUEUED,
            attempt=job.attempt + 1,
            attempts=attempts,
            waits=waits(For.SLICE, reason, change.now + seconds if seconds else None),
            workers=[JobWorker.model_validate(one | FRESH).to_json() for one in job.workers],
            **dict.fromkeys(("failed_worker", "error", "exit_code", "signal", "start_time", "notice_time")),
            device_seconds_before=0.0,
        )
        change.event(job.full_name, f"{job.state} -> {again.state}", f"{reason}; attempt {again.attempt} follows")

    def _give_back(self, change: Transaction, job: JobRow) -> None:
        made = change.node(owner_job=job.uid)
        if made is not None and made.state is not NodeState.DELETING:
            operations.begin_delete(change, made)


def _is_stalled(job: JobRow) -> bool:
    """Whether a job is ended because it cannot go on, though no worker has failed."""
    return job.error is not None and job.failed_worker is None


def _failed(job: JobRow, ends: Ends) -> int | None:
    """The worker that failed first, if one did before the job was ended."""
    return job.failed_worker if job.failed_worker is not None or _is_stalled(job) else first_failure(ends)
