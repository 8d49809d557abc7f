"""tpuctl logs: what a job has written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.options import JobName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.api.jobs import JobEvent

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")]


def logs(name: JobName, follow: Follow = False) -> None:
    """Print a job's output: its stdout on stdout, its stderr on stderr."""
    from tpuctl.cli.plane import connect

    with connect() as client:
        _print(client.watch_job(name) if follow else client.job_logs(name))


def _print(events: Iterable[JobEvent]) -> None:
    from tpuctl.api.jobs import LogRecord

    for event in events:
        if isinstance(event, LogRecord):
            stream = sys.stdout if event.stream == "stdout" else sys.stderr
            stream.write(event.text)
            stream.flush()
