"""How is it said on the command line when a job runs, and when it runs again?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli import complete, exit_codes
from tpuctl.cli.options import valid_job
from tpuctl.cli.problems import Problem

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_IN_ARRAY = 1000
POLICIES = ("never", "on-preemption", "on-failure", "always")


def _valid_policy(text: str | None) -> str | None:
    if text is not None and text not in POLICIES:
        raise Problem(f"--restart {text}: there is no such policy", f"use {', '.join(POLICIES)}", exit_codes.USAGE)
    return text


def _valid_jobs(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        valid_job(name)
    return names


def _policies() -> list[str]:
    return list(POLICIES)


Zones = Annotated[
    list[str] | None,
    typer.Option(
        "--zone", metavar="ZONE", help="Zone of the slice; TPUCTL_ZONE, or europe-west4-a. Several: any that has room."
    ),
]
Restart = Annotated[
    str | None,
    typer.Option(
        "--restart",
        metavar="POLICY",
        help="Run it again: on-preemption (or when the slice breaks or goes), on-failure as well, or always.",
        autocompletion=_policies,
        callback=_valid_policy,
    ),
]
MaxRestarts = Annotated[
    int | None,
    typer.Option("--max-restarts", metavar="N", min=0, help="So often; by default 3, and without end on-preemption."),
]
CheckpointDir = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-dir", metavar="DIR", help="Made if it is not there; the job has it as $TPUCTL_CHECKPOINT_DIR."
    ),
]
Priority = Annotated[
    int, typer.Option("--priority", metavar="P", help="Jobs of a higher one get capacity or a busy slice first.")
]
Queue = Annotated[
    bool, typer.Option("--queue/--no-queue", help="Wait for capacity, quota or a busy slice, or fail at once.")
]
Spot = Annotated[bool, typer.Option("--spot", help="The slice made for the job may be preempted.")]
After = Annotated[
    list[str] | None,
    typer.Option(
        "--after",
        metavar="JOB",
        help="Run once this job, or all of an array, has succeeded; may be given several times.",
        autocompletion=complete.jobs,
        callback=_valid_jobs,
    ),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="End it after 90s, 30m, 2h or 1d of running.")
]
Array = Annotated[
    str | None,
    typer.Option("--array", metavar="0-9", help="A job NAME-N for each number; each has it as $TPUCTL_ARRAY_INDEX."),
]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="WHEN", help="Run it, or its array, every hour, day, week, 2h or by cron (UTC)."),
]


def seconds(text: str | None) -> float | None:
    """``90s`` or ``1.5h`` as seconds. Raises Problem."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", text)
    if found is None or float(found[1]) == 0:
        raise Problem(f"--timeout {text}: that is no length of time", "use 90s, 30m, 2h or 1d", exit_codes.USAGE)
    return float(found[1]) * UNITS[found[2] or "s"]


def indices(text: str) -> list[int]:
    """``0-3,7`` as numbers. Raises Problem."""
    found: list[int] = []
    for part in text.split(","):
        numbers = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (1, 0)
        if last < first or last - first >= MOST_IN_ARRAY:
            raise Problem(f"--array {text}: {part!r} is no range", "use 0-9 or 0,2,5-7", exit_codes.USAGE)
        found += range(first, last + 1)
    if len(set(found)) > MOST_IN_ARRAY:
        raise Problem(f"--array {text} is {len(set(found))} jobs", f"use at most {MOST_IN_ARRAY}", exit_codes.USAGE)
    return sorted(set(found))
