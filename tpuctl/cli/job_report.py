"""What is said of a job when it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuctl.cli import terminal, training
from tpuctl.cli.curve import curve
from tpuctl.cli.losses import loss_curve
from tpuctl.cli.units import seconds_text
from tpuctl.metrics import POSITION

if TYPE_CHECKING:
    from tpuctl.api.jobs import Job

MAX_CURVE_COLUMNS = 72


def report(job: Job, rows: Sequence[Mapping[str, float]]) -> None:
    """Draw the loss, and say how the job ended and where its artifacts are; on stderr."""
    from rich.text import Text

    console = terminal.stderr()
    width = min(MAX_CURVE_COLUMNS, max(console.width - 16, 20))
    x_label, points = loss_curve(rows)
    plot = curve(points, width=width, title="loss", x_label=x_label)
    for line in ["", *plot, ""] if plot else []:
        console.print(Text(line, style="cyan"))
    console.print(_ending(job))
    for artifact in job.artifacts:
        console.print(Text(f"  {artifact}"))
    for line in job.error.message.splitlines() if job.error else ():
        console.print(Text(f"  {line}"))
    if job.ephemeral_slice and job.keep_slice:
        console.print(Text(f"Slice {job.slice} is kept. Delete it: tpuctl delete slice {job.slice}"))


def final_object(job: Job) -> dict[str, Any]:
    """The one object that `run job -o json` prints."""
    return {
        "name": job.name,
        "state": str(job.state),
        "exitCode": job.exit_code,
        "slice": job.slice,
        "processes": job.processes,
        "failedWorker": job.failed_worker,
        "error": job.error.message if job.error else None,
        "metrics": training.scalars(job.metrics) | _place(job),
        "artifacts": job.artifacts,
        "hostSeconds": job.host_seconds,
        "deviceSeconds": job.device_seconds,
    }


def _place(job: Job) -> dict[str, float]:
    return {name: job.metrics[name] for name in POSITION if name in job.metrics}


def _ending(job: Job) -> Any:
    from rich.text import Text

    host, device = seconds_text(job.host_seconds), seconds_text(job.device_seconds)
    match job.state:
        case "SUCCEEDED":
            return Text.assemble(
                ("✓ ", "green"), f"Job {job.name} succeeded: {host} on this host, {device} of device time (simulated)"
            )
        case "CANCELLED":
            return Text.assemble(("✗ ", "yellow"), f"Job {job.name} was cancelled")
    return Text.assemble(("✗ ", "red"), f"Job {job.name} {_failure(job)}")


def _failure(job: Job) -> str:
    """How a job failed. One that ran has no exit status if its worker ended before it could tell."""
    if job.signal:
        return f"was killed by signal {job.signal}"
    if job.exit_code is not None:
        return f"failed with exit status {job.exit_code}"
    has_run = job.start_time is not None or job.metrics
    unknown = "" if job.error else ": its exit status is not known"
    return f"was ended while it ran{unknown}" if has_run else "failed before it started"
