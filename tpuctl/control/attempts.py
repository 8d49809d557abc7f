"""What is kept of each attempt of a job, and what do they make together?"""

from __future__ import annotations

from typing import Any

from tpuctl.api.jobs import Attempt
from tpuctl.control.restarts import Why
from tpuctl.control.views import moment
from tpuctl.store import JobRow


def ended_attempt(job: JobRow, why: Why, detail: str, **values: Any) -> dict[str, Any]:
    """The present attempt as it is stored once it has ended; ``values`` are those of the row that it ended with."""
    given = {name: values.get(name, getattr(job, name)) for name in _SAME}
    return Attempt(
        number=job.attempt,
        ended=why.value,
        detail=detail,
        start_time=moment(values.get("start_time", job.start_time)),
        end_time=moment(values.get("end_time", job.end_time)),
        **given,
    ).to_json()


_SAME = (
    "slice",
    "zone",
    "exit_code",
    "host_seconds",
    "device_seconds",
    "metrics",
    "metrics_tail",
    "artifacts",
)


def total(attempts: list[dict[str, Any]], name: str) -> float | None:
    """The sum of what attempts took; None if none says."""
    found = [float(one[name]) for one in attempts if one.get(name) is not None]
    return sum(found) if found else None


def ended_after(attempts: list[dict[str, Any]]) -> list[tuple[Why, float]]:
    """Why each has ended, and after how many seconds: also one that no worker could tell the time of."""
    return [(Why(one["ended"]), _seconds(Attempt.model_validate(one))) for one in attempts]


def _seconds(one: Attempt) -> float:
    if one.start_time is None or one.end_time is None:
        return one.host_seconds or 0.0
    return (one.end_time - one.start_time).total_seconds()
