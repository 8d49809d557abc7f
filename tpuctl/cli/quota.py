"""tpuctl quota: how many cores projects may have, and requests for more."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tpuctl.api.quota import EVERY, Provisioning
from tpuctl.cli import complete
from tpuctl.cli.bars import bar, share
from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_data, show_list

app = typer.Typer(help="How many cores projects may have in a region; and requests for more.", no_args_is_help=True)

Generation = Annotated[
    str,
    typer.Option("--generation", "-g", metavar="GENERATION", help="Such as v4.", autocompletion=complete.generations),
]
Region = Annotated[str, typer.Option("--region", metavar="REGION", help="Such as us-central2; * is any.")]
Kind = Annotated[Provisioning, typer.Option("--kind", help="How the slices are come by.")]
Project = Annotated[str | None, typer.Option("--project", metavar="PROJECT", help="Another than yours.")]
Limit = Annotated[int, typer.Argument(metavar="CORES", min=0, help="The limit, in TensorCores.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="For whoever decides.")]
RequestId = Annotated[str, typer.Argument(metavar="ID", help="As `tpuctl quota list` shows it.")]


def _used(row: dict[str, Any]) -> str:
    return f"{bar(share(row['inUse'], row['limit'])).plain} {row['inUse']}"


QUOTAS = (
    Column("PROJECT", lambda row: row["project"]),
    Column("REGION", lambda row: row["region"]),
    Column("GENERATION", lambda row: row["generation"]),
    Column("KIND", lambda row: row["kind"]),
    Column("IN USE", _used),
    Column("LIMIT", lambda row: f"{row['limit']} cores"),
)
REQUESTS = (
    Column("REQUEST", lambda row: row["id"]),
    Column("STATE", lambda row: row["state"]),
    Column("REGION", lambda row: row["region"]),
    Column("GENERATION", lambda row: row["generation"]),
    Column("KIND", lambda row: row["kind"]),
    Column("LIMIT", lambda row: f"{row['limit']} cores"),
    Column("REASON", lambda row: row.get("reason") or ""),
)


@app.command("list")
def list_quotas(project: Project = None, output: Output = Format.TABLE) -> None:
    """List limits with what is in use of them, and requests for others."""
    from tpuctl.cli.plane import connect

    with connect() as client:
        quotas = [one.to_json() for one in client.list_quotas(project)]
        requests = [one.to_json() for one in client.list_quota_requests(project)]
    if output is Format.NAME:
        for row in quotas:
            print("/".join(row[part] for part in ("project", "region", "generation", "kind")))
        return
    if output.is_data:
        show_data({"quotas": quotas, "requests": requests}, output)
        return
    show_list(quotas, QUOTAS, output, "No limits: set one with tpuctl quota set -g v4 CORES.")
    if requests:
        print()
        show_list(requests, REQUESTS, output, "")


@app.command("set")
def set_quota(
    limit: Limit,
    generation: Generation,
    region: Region = EVERY,
    kind: Kind = Provisioning.ON_DEMAND,
    project: Project = None,
) -> None:
    """Set a limit; a lower one than is in use takes nothing away. Needs an admin of all projects."""
    from tpuctl.api.names import default_project
    from tpuctl.api.quota import Quota
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    whose = project or default_project()
    with connect() as client:
        client.set_quota(Quota(project=whose, region=region, generation=generation, kind=kind, limit=limit))
    where = "in any region" if region == EVERY else f"in {region}"
    terminal.say(f"Project {whose} may have {limit} {kind} cores of {generation} {where}")


@app.command("request")
def request_quota(
    limit: Limit,
    generation: Generation,
    region: Region = EVERY,
    kind: Kind = Provisioning.ON_DEMAND,
    reason: Reason = "",
    project: Project = None,
) -> None:
    """Ask for another limit; an admin approves or denies it."""
    from tpuctl.api.quota import QuotaRequest
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    wanted = QuotaRequest(region=region, generation=generation, kind=kind, limit=limit, reason=reason)
    with connect() as client:
        made = client.request_quota(wanted, project)
    print(made.id)
    terminal.say(f"Quota request {made.id} waits for an admin: tpuctl quota approve {made.id}")


@app.command("approve")
def approve(request: RequestId) -> None:
    """Approve a request: its limit counts from now on."""
    _decide(request, approved=True)


@app.command("deny")
def deny(request: RequestId) -> None:
    """Deny a request: all stays as it is."""
    _decide(request, approved=False)


def _decide(request: str, *, approved: bool) -> None:
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        made = client.decide_quota_request(request, approve=approved)
    terminal.say(f"Quota request {made.id} of project {made.project} is {made.state}")
