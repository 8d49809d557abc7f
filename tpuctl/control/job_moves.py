"""What becomes of a job whose slice could not be made?"""

from __future__ import annotations

from datetime import datetime

from tpuctl.api.errors import ApiError, ResourceExhausted
from tpuctl.api.jobs import JobState
from tpuctl.control.job_waits import For, failed, waits
from tpuctl.store import JobRow, Transaction


def slice_failed(change: Transaction, job: JobRow, error: ApiError, *, had_room: bool) -> None:
    """A slice that was being made for a job has not been: the job waits for capacity, if it may, or ends.

    One that failed although it ``had_room`` is not made anew at once.
    """
    if job.state.ended:
        return
    if error.code == ResourceExhausted.code and not job.cancel_requested and may_wait(job):
        since = job.attempts[-1].get("endTime") if job.attempts else None
        begun = job.create_time if since is None else datetime.fromisoformat(since).timestamp()
        again = failed(error.message, begun, change.now) if had_room else waits(For.CAPACITY, error.message)
        change.replace(job, waits=again)
        change.event(job.full_name, "waits for capacity", error.message)
        return
    state = JobState.CANCELLED if job.cancel_requested else JobState.FAILED
    change.replace(job, state=state, error=error.to_status(), end_time=change.now, waits=None)
    change.event(job.full_name, f"{job.state} -> {state}", error.message)


def may_wait(job: JobRow) -> bool:
    """Whether a job waits for its slice; one that has been restarted always does."""
    return bool(job.plan.get("queue")) or job.attempt > 1
