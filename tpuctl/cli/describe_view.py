"""How `tpuctl describe` looks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.api.names import shape_text
from tpuctl.cli import training
from tpuctl.cli.bars import bar, share
from tpuctl.cli.chip_picture import slice_picture
from tpuctl.cli.curve import curve
from tpuctl.cli.losses import loss_curve
from tpuctl.cli.output import STATE_COLOURS
from tpuctl.cli.units import UNKNOWN, bytes_text, dollars, seconds_text, seconds_until, share_text

SIMULATED = ("  simulated", "dim")
ENDED_COLOURS = {"succeeded": "green", "preempted": "yellow", "failed": "red", "timed out": "red"}
MOST_WORKERS = 16
MOST_ATTEMPTS = 16
"""Of more than these, only those worth a look are shown."""


def slice_view(found: dict[str, Any], width: int, wide: bool = False) -> RenderableType:
    """A slice: ``found`` is the answer of /tpuctl/v1/…/slices/N; its picture is at most ``width`` columns wide."""
    used, limit = found.get("hbmBytesInUse"), found.get("hbmBytesLimit")
    busy = found.get("mxuBusyShare")
    state = found["state"]
    fields: dict[str, RenderableType] = {
        "Name": Text(found["name"], style="bold"),
        "State": Text.assemble((state, STATE_COLOURS.get(state, "")), f"  {found.get('health') or ''}"),
        "Type": _shape(found),
        "Zone": found["zone"],
        "Endpoint": f"{found.get('endpoint') or UNKNOWN}",
        **({"Workers": _hosts(found["workers"], wide)} if len(found.get("workers") or ()) > 1 else {}),
        "Job": found.get("job") or UNKNOWN,
        "HBM": Text.assemble(bar(share(used, limit), 20), f" {bytes_text(used)} of {bytes_text(limit)}"),
        "MXU busy": Text.assemble(bar(busy, 20), f" {share_text(busy)}", SIMULATED),
        "Programs run": str(found.get("programsRun", UNKNOWN)),
        "Device time": Text.assemble(seconds_text(found.get("deviceSeconds")), SIMULATED),
    }
    if found.get("startupScript"):
        fields["Startup script"] = found["startupScript"]
    if found.get("healthDescription"):
        fields["Health"] = found["healthDescription"]
    if wide:
        fields |= {"Socket": found["socket"], "Folder": found["directory"], "Pid": str(found.get("pid", UNKNOWN))}
    attach = Text.assemble("Use it: ", (f'eval "$(tpuctl attach {found["name"]})"', "cyan"))
    return Group(_fields(fields), "", slice_picture(found, width), "", attach)


def _shape(found: dict[str, Any]) -> str:
    """``2 x v3-32  4x4  32 chips, 64 cores, 8 hosts``: the counts are of all slices together."""
    hosts = found.get("hosts", 1)
    several = shape_text(found["type"], found.get("numSlices", 1))
    counts = f"{found['chips']} chips, {found['cores']} cores" + (f", {hosts} hosts" if hosts > 1 else "")
    return "  ".join(filter(None, (several, found.get("topology"), counts)))


def _hosts(workers: Sequence[Mapping[str, Any]], wide: bool) -> str:
    """The VMs with their addresses; of many, the first and the last."""
    lines = [f"{worker['name']}  {worker['ipAddress']}" for worker in workers]
    if len(lines) > MOST_WORKERS and not wide:
        lines = [*lines[:2], f"... {len(lines) - 3} more (-o wide)", lines[-1]]
    return "\n".join(lines)


def job_workers(job: Mapping[str, Any], wide: bool) -> RenderableType | None:
    """A row a worker: what it owns, how it is; those that did not do as most did, if they are many. None for one."""
    workers = job.get("workers") or []
    if len(workers) < 2:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("WORKER", "STATE", "PID", "EXIT", "VM", "ADDRESS", "HOSTS"):
        table.add_column(heading, no_wrap=True)
    states = [worker["state"] for worker in workers]
    usual = max(set(states), key=states.count)
    shown = [one for one in workers if wide or len(workers) <= MOST_WORKERS or one["state"] != usual]
    for worker in shown:
        state = worker["state"]
        first = worker["index"] * worker["hosts"]
        hosts = f"{first}-{first + worker['hosts'] - 1}" if worker["hosts"] > 1 else str(first)
        mark = "  at fault" if worker["index"] == job.get("failedWorker") else ""
        table.add_row(
            f"{worker['index']}",
            Text.assemble((state, STATE_COLOURS.get(state, "")), mark),
            str(worker.get("pid") or UNKNOWN),
            str(worker.get("exitCode", UNKNOWN)),
            worker["name"],
            worker["ipAddress"],
            hosts,
        )
    rest = len(workers) - len(shown)
    return Group(table, Text(f"and {rest} more {usual} (-o wide)", style="dim")) if rest else table


def attempts_table(job: Mapping[str, Any], wide: bool) -> RenderableType:
    """A row an attempt: how far it came, how long it took, and why it ended; of many, the last."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows = list(job["attempts"])
    several_zones = len({job["zone"], *(one["zone"] for one in rows)}) > 1
    for heading in ("ATTEMPT", "ENDED", "EXIT", "AT", "HOST TIME", *(["ZONE"] if several_zones else [])):
        table.add_column(heading, no_wrap=True)
    table.add_column("WHY", overflow="fold")
    if rows[-1]["number"] != job.get("attempt", 1):
        now = {"number": job["attempt"], "zone": job["zone"], "metrics": job.get("metrics") or {}}
        seconds = job.get("hostSeconds") if job["state"] == "RUNNING" else None
        rows.append(now | {"running": job["state"], "detail": job.get("waitsFor", ""), "hostSeconds": seconds})
    for one in rows if wide else rows[-MOST_ATTEMPTS:]:
        ended = one.get("ended") or one["running"]
        table.add_row(
            str(one["number"]),
            Text(ended, style=ENDED_COLOURS.get(ended) or STATE_COLOURS.get(ended, "")),
            str(one.get("exitCode", UNKNOWN)),
            str(training.position(one.get("metrics") or {})) or UNKNOWN,
            seconds_text(one.get("hostSeconds")),
            *([one["zone"]] if several_zones else []),
            one.get("detail") or "",
        )
    before = 0 if wide else max(0, len(rows) - MOST_ATTEMPTS)
    return Group(table, Text(f"and {before} before these (-o wide)", style="dim")) if before else table


def job_view(job: dict[str, Any], wide: bool = False) -> RenderableType:
    """A job: ``job`` is the answer of /tpuctl/v1/…/jobs/J."""
    metrics = job.get("metrics") or {}
    rows = job.get("metricsTail") or []
    place = training.position(metrics)
    state = job["state"]
    fields: dict[str, RenderableType] = {
        "Name": Text(job["name"], style="bold"),
        "State": Text(state, style=STATE_COLOURS.get(state, "")),
        "Exit code": str(job.get("exitCode", UNKNOWN)),
        "Slice": "  ".join(filter(None, (job["slice"], _kind(job), job.get("topology")))),
        "Command": shlex.join(job["command"]),
        "Host time": seconds_text(job.get("hostSeconds")),
        "Device time": Text.assemble(seconds_text(job.get("deviceSeconds")), SIMULATED),
    }
    if job.get("chipHours"):
        price = "no price is published" if job.get("cost") is None else f"{dollars(job['cost'])} at list prices"
        fields["Cost"] = f"{price}, {job['chipHours']:,.3f} chip-hours"
    if job.get("hosts", 1) > 1:
        fields["Processes"] = f"{job['processes']}, for {job['hosts']} hosts"
    if job.get("restart", "never") != "never":
        fields["Restart"] = f"{job['restart']}; this is attempt {job.get('attempt', 1)}"
    if job.get("priority"):
        fields["Priority"] = str(job["priority"])
    if job.get("checkpointDir"):
        fields["Checkpoints"] = job["checkpointDir"]
    if job.get("waitsFor"):
        left = seconds_until(job["waitsUntil"]) if job.get("waitsUntil") else 0.0
        again = f"; again in {seconds_text(left)}" if left > 0 else ""
        fields["Waits for"] = Text(job["waitsFor"] + again, style="yellow")
    if job.get("error"):
        fields["Error"] = Text(job["error"].get("message", ""), style="red")
    if job.get("trouble"):
        fields["Trouble"] = Text(job["trouble"], style="yellow")
    if str(place):
        fields["Progress"] = Text.assemble(bar(place.share, 20), f" {place}")
        fields["Step, host"] = seconds_text(training.host_step_seconds(rows))
        fields["Step, device"] = Text.assemble(seconds_text(training.device_step_seconds(job)), SIMULATED)
    fields |= {name: f"{value:.4g}" for name, value in training.scalars(metrics).items()}
    if job.get("artifacts"):
        fields["Artifacts"] = "\n".join(job["artifacts"])
    if wide:
        fields |= {
            "Working folder": job["workingDirectory"],
            "Folder": job.get("directory") or UNKNOWN,
            "Pid": str(job.get("pid", UNKNOWN)),
            "Created": job["createTime"],
            "Started": job.get("startTime") or UNKNOWN,
            "Ended": job.get("endTime") or UNKNOWN,
        }
    x_label, points = loss_curve(rows)
    plot = curve(points, title="loss", x_label=x_label)
    tables = [attempts_table(job, wide) if job.get("attempts") else None, job_workers(job, wide)]
    below: list[RenderableType] = [part for table in tables if table is not None for part in ("", table)]
    return Group(
        _fields(fields),
        *below,
        *([""] if plot else []),
        *(Text(line, style="cyan") for line in plot),
    )


def _kind(job: Mapping[str, Any]) -> str:
    return shape_text(job["acceleratorType"], job.get("numSlices", 1))


def _fields(fields: dict[str, RenderableType]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, value)
    return table
