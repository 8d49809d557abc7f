"""tpuctl list schedules, delete schedule: jobs that run again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.options import Output, Yes, valid_job
from tpuctl.cli.output import Column, Format, show_list
from tpuctl.cli.units import UNKNOWN

if TYPE_CHECKING:
    from tpuctl.api.jobs import JobRequest
    from tpuctl.client import Client


def _time(row: dict[str, Any], field: str) -> str:
    text = row.get(field)
    return f"{text[:10]} {text[11:16]}" if text else UNKNOWN


def _last(row: dict[str, Any]) -> str:
    """Of an array ``nightly-20261130-043000-*``."""
    return str(row.get("lastJob", UNKNOWN)) + ("-*" if row.get("lastJob") and row.get("indices") else "")


def _jobs(row: dict[str, Any]) -> str:
    count = len(set(row.get("indices") or [0]))
    return f"{count} job{'s' if count > 1 else ''}"


COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("EVERY", lambda row: row["every"]),
    Column("NEXT (UTC)", lambda row: _time(row, "nextTime")),
    Column("RUNS", lambda row: str(row["runs"]), spare=1),
    Column("LAST JOB", _last),
    Column("JOBS", _jobs, wide=True),
    Column("MISSED", lambda row: str(row["missed"]), wide=True),
    Column("SKIPPED", lambda row: str(row["skipped"]), wide=True),
    Column("LAST (UTC)", lambda row: _time(row, "lastTime"), wide=True),
    Column("ERROR", lambda row: row.get("error", UNKNOWN), wide=True),
    Column("COMMAND", lambda row: " ".join(row["command"]), wide=True),
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `list schedules` shows it.", callback=valid_job)]


def create(client: Client, every: str, request: JobRequest, numbers: list[int] | None, output: Format) -> None:
    """Have the job, or an array of it, run again and again, and say so."""
    from tpuctl.cli import terminal
    from tpuctl.cli.output import show_data

    made = client.create_schedule(request.name or "job", every, request, numbers)
    found = made.to_json()
    each = f", {_jobs(found)} each" if numbers else ""
    terminal.say(f"Schedule {made.name}: every {made.every}{each}, next at {_time(found, 'nextTime')} UTC")
    terminal.say(f"  to end that: tpuctl delete schedule {made.name}")
    if output.is_data:
        show_data(found, output)


def listing(output: Output = Format.TABLE) -> None:
    """List schedules: what runs again and again, and when next."""
    from tpuctl.api.names import default_project
    from tpuctl.cli import terminal
    from tpuctl.cli.reader import read

    found = read(f"/tpuctl/v1/projects/{default_project()}/schedules").get("schedules") or []
    show_list(found, COLUMNS, output, "No schedules. Make one: tpuctl run job mnist --every day")
    for row in found if not output.is_data else ():
        if row.get("error"):
            terminal.say(f"! {row['name']} could not be started: {row['error']}")


def delete(name: Name, yes: Yes = False) -> None:
    """Delete a schedule; its jobs stay."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    if not yes and terminal.is_interactive() and not typer.confirm(f"Delete schedule {name}?", err=True):
        return
    with connect() as client:
        client.delete_schedule(name)
    terminal.say(f"Schedule {name} is deleted")
