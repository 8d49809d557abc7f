"""How `tpuctl status` looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.cli import training
from tpuctl.cli.bars import bar, share
from tpuctl.cli.output import STATE_COLOURS
from tpuctl.cli.units import UNKNOWN, bytes_text, seconds_text, share_text

Slice = dict[str, Any]
Job = dict[str, Any]
LATEST_JOBS = 10
CLOCKS = "Device time and MXU busy are simulated: they come from the chips' timing model. Host time is measured."
SLICE_HEADINGS = "NAME", "TYPE", "STATE", "CHIPS", "HBM USED", "", "MXU BUSY", "", "PROGRAMS", "DEVICE TIME", "JOB"
JOB_HEADINGS = "NAME", "STATE", "SLICE", "PROGRESS", "", "LOSS", "ACCURACY", "STEP, HOST", "STEP, DEVICE", "TIME"
LIVE = ("QUEUED", "RUNNING")


def status_view(status: dict[str, Any], wide: bool = False) -> RenderableType:
    """The whole of it: ``status`` is the answer of /tpuctl/v1/status. ``wide`` also shows what has long ended."""
    slices, jobs = status["slices"], status["jobs"]
    shown = jobs if wide else [job for job in jobs if job["state"] in LIVE] + _ended(jobs)[-LATEST_JOBS:]
    parts: list[RenderableType] = [_control_plane(status), ""]
    parts.append(_slices(slices) if slices else _hint("No slices.", "tpuctl create slice NAME --type v3-8"))
    parts.append("")
    parts.append(_jobs(shown) if shown else _hint("No jobs.", "tpuctl run job mnist"))
    if len(shown) < len(jobs):
        parts.append(Text(f"and {len(jobs) - len(shown)} more: tpuctl list jobs", style="dim"))
    parts.append(Text(CLOCKS, style="dim"))
    return Group(*parts)


def _control_plane(status: dict[str, Any]) -> Text:
    return Text.assemble(
        ("● ", "green"),
        ("Control plane", "bold"),
        f" {status['version']} at {status['url']}, up {seconds_text(status['uptimeSeconds'])}",
        (f"  pid {status['pid']}, project {status['project']}, {status['home']}", "dim"),
    )


def _slices(slices: Sequence[Slice]) -> Table:
    table = _table("Slices", *SLICE_HEADINGS)
    for found in slices:
        used, limit = found.get("hbmBytesInUse"), found.get("hbmBytesLimit")
        busy = found.get("mxuBusyShare")
        table.add_row(
            Text(found["name"], style="bold"),
            found["type"],
            _state(found["state"]),
            f"{found['chips']} ({found['cores']} cores)",
            bar(share(used, limit)),
            f"{bytes_text(used)} of {bytes_text(limit)}" if used is not None else UNKNOWN,
            bar(busy),
            share_text(busy),
            str(found.get("programsRun", UNKNOWN)),
            seconds_text(found.get("deviceSeconds")),
            found.get("job") or UNKNOWN,
        )
    return table


def _jobs(jobs: Sequence[Job]) -> Table:
    table = _table("Jobs", *JOB_HEADINGS)
    for job in jobs:
        metrics = job.get("metrics") or {}
        place = training.position(metrics)
        table.add_row(
            Text(job["name"], style="bold"),
            _state(job["state"]),
            job["slice"],
            bar(place.share) if place.share is not None else "",
            str(place) or UNKNOWN,
            _number(metrics, "loss", ".4f"),
            _number(metrics, "accuracy", ".2%"),
            seconds_text(training.host_step_seconds(job.get("metricsTail") or [])),
            seconds_text(training.device_step_seconds(job)),
            seconds_text(job.get("hostSeconds")),
        )
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _state(state: str) -> Text:
    return Text(state, style=STATE_COLOURS.get(state, ""))


def _number(metrics: dict[str, Any], name: str, form: str) -> str:
    value = metrics.get(name)
    return format(float(value), form) if value is not None else UNKNOWN


def _ended(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if job["state"] not in LIVE]


def _hint(what: str, command: str) -> Text:
    return Text.assemble(what, " Start with ", (command, "cyan"))
