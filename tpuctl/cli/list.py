"""tpuctl list: slices, jobs and accelerator types."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from tpuctl.api.names import shape_text
from tpuctl.cli import complete
from tpuctl.cli.options import Output, Watch
from tpuctl.cli.output import Column, Format, Resource, short_name, show_list
from tpuctl.cli.units import UNKNOWN, age_text, seconds_text
from tpuctl.cli.waits import told

app = typer.Typer(help="List slices, jobs or accelerator types.", no_args_is_help=True)

OneZone = Annotated[str, typer.Option("--zone", metavar="ZONE", help="Only this zone.", show_default="all zones")]
ALL_ZONES = "-"


def endpoint(node: Resource) -> str:
    """Where a slice's device link is: the address of its worker 0."""
    endpoints = node.get("networkEndpoints") or []
    return f"{endpoints[0]['ipAddress']}:{endpoints[0]['port']}" if endpoints else UNKNOWN


def zone(node: Resource) -> str:
    return str(node["name"].split("/")[3])


def topology(node: Resource) -> str:
    from backend.hardware.accelerator_types import ACCELERATOR_TYPES

    if chosen := node.get("acceleratorConfig"):
        return str(chosen["topology"])
    known = ACCELERATOR_TYPES.get(node.get("acceleratorType", ""))
    return known.topology if known else UNKNOWN


def node_type(node: Resource) -> str:
    """``v3-8``; ``2 x v3-8`` of slices that are joined, which have an endpoint a host."""
    name = str(node.get("acceleratorType", UNKNOWN))
    if not node.get("multisliceNode"):
        return name
    from backend.hardware import accelerator_type

    hosts = accelerator_type(name, topology(node)).num_hosts
    return shape_text(name, len(node.get("networkEndpoints") or ()) // hosts)


def field(name: str) -> Callable[[Resource], str]:
    return lambda resource: str(resource.get(name, UNKNOWN))


SLICE_COLUMNS = (
    Column("NAME", short_name),
    Column("ZONE", zone),
    Column("TYPE", node_type),
    Column("TOPOLOGY", topology, wide=True),
    Column("STATE", field("state")),
    Column("HEALTH", field("health")),
    Column("ENDPOINT", endpoint, spare=2),
    Column("AGE", lambda node: age_text(node.get("createTime")), spare=1),
    Column("RUNTIME VERSION", field("runtimeVersion"), wide=True),
    Column("CREATED", field("createTime"), wide=True),
)

JOB_COLUMNS = (
    Column("NAME", field("name")),
    Column("STATE", field("state")),
    Column("EXIT", field("exitCode")),
    Column("SLICE", field("slice"), spare=3),
    Column("TYPE", lambda job: shape_text(job["acceleratorType"], job.get("numSlices", 1))),
    Column("AGE", lambda job: age_text(job.get("createTime")), spare=1),
    Column("HOST TIME", lambda job: seconds_text(job.get("hostSeconds")), spare=2),
    Column("DEVICE TIME (SIMULATED)", lambda job: seconds_text(job.get("deviceSeconds")), wide=True),
    Column("PROCESSES", field("processes"), wide=True),
    Column("ATTEMPT", field("attempt"), wide=True),
    Column("WAITS FOR", field("waitsFor"), wide=True),
    Column("PID", field("pid"), wide=True),
    Column("COMMAND", lambda job: " ".join(job["command"]), wide=True),
)


class Listing(NamedTuple):
    """What can be listed: where it is read, which field of the answer it is, and how it looks."""

    path: str
    field: str
    columns: tuple[Column, ...]
    empty: str


SLICES = Listing(
    "/v2/projects/{project}/locations/{zone}/nodes",
    "nodes",
    SLICE_COLUMNS,
    "No slices.",
)
JOBS = Listing("/tpuctl/v1/projects/{project}/jobs", "jobs", JOB_COLUMNS, "No jobs. Run one: tpuctl run job mnist")
TYPES = Listing(
    "/v2/projects/{project}/locations/{zone}/acceleratorTypes",
    "acceleratorTypes",
    (),
    "No accelerator types.",
)


@app.command("slices")
def list_slices(zone: OneZone = ALL_ZONES, output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List slices."""
    if zone == ALL_ZONES:
        _check_default_zone()
    there = "" if zone == ALL_ZONES else f" --zone {zone}"
    where = "" if zone == ALL_ZONES else f" in {zone}"
    empty = f"No slices{where}. Create one: tpuctl create slice NAME --type v3-8{there}"
    _show(SLICES._replace(empty=empty), output, watch, zone)


@app.command("jobs")
def list_jobs(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List jobs, the newest last; and what those that are queued wait for."""
    from tpuctl.cli.watch import repeat

    repeat(lambda: _show_jobs(output), watch)


@app.command("types")
def list_types(
    generation: Annotated[
        str | None,
        typer.Option(
            "--generation", "-g", metavar="GENERATION", help="Only this one.", autocompletion=complete.generations
        ),
    ] = None,
    zone: OneZone = ALL_ZONES,
    output: Output = Format.TABLE,
) -> None:
    """List accelerator types: with --generation all shapes of one, else the usual ones."""
    from tpuctl.cli.types import show_types, wanted_generation

    chosen = wanted_generation(generation)
    show_types(_read(TYPES, zone), chosen, output)


def _check_default_zone() -> None:
    """Refuse a TPUCTL_ZONE that there is not, also where all zones are listed. Raises ApiError."""
    if chosen := os.environ.get("TPUCTL_ZONE"):
        from tpuctl.api.names import default_project, location_name
        from tpuctl.cli.reader import read

        read(f"/v2/{location_name(default_project(), quote(chosen, safe=''))}")


def _show(what: Listing, output: Format, watch: bool, zone: str = ALL_ZONES) -> None:
    from tpuctl.cli.watch import repeat

    repeat(lambda: show_list(_read(what, zone), what.columns, output, what.empty), watch)


def _show_jobs(output: Format) -> None:
    from tpuctl.cli import terminal

    found = _read(JOBS)
    show_list(found, JOB_COLUMNS, output, JOBS.empty)
    if output is Format.TABLE:
        lines, rest = told(found)
        for names, text in lines:
            terminal.tell(f"{names} {text}")
        if rest:
            terminal.say(f"  and {rest} more wait (-o wide)")


def _read(what: Listing, zone: str = ALL_ZONES) -> list[Resource]:
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    answer: dict[str, Any] = read(what.path.format(project=default_project(), zone=quote(zone, safe="")))
    return answer.get(what.field) or []
