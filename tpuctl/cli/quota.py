"""tpuctl quota: what projects may have, how often they may call, and requests for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.api.quota import EVERY, Provisioning
from tpuctl.cli import complete, exit_codes
from tpuctl.cli.bars import bar, share
from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_data, show_list
from tpuctl.cli.problems import Problem

if TYPE_CHECKING:
    from tpuctl.api.quota import Limit

app = typer.Typer(help="What projects may have and how often they may call; requests for more.", no_args_is_help=True)

Generation = Annotated[
    str,
    typer.Option(
        "--generation", "-g", metavar="GENERATION", help="Of slices: such as v4.", autocompletion=complete.generations
    ),
]
Location = Annotated[
    str,
    typer.Option(
        "--location",
        "-l",
        metavar="PLACE",
        help="A zone, or a region, such as us-central2; * is any.",
        autocompletion=complete.places,
    ),
]
Kind = Annotated[Provisioning, typer.Option("--kind", help="How the slices are come by.")]
Chips = Annotated[bool, typer.Option("--chips", help="The limit is in chips, not in TensorCores.")]
Method = Annotated[
    str, typer.Option("--method", metavar="METHOD", help="Of calls a minute: such as nodes.create; * is all together.")
]
Project = Annotated[str | None, typer.Option("--project", metavar="PROJECT", help="Another than yours.")]
LimitArgument = Annotated[int, typer.Argument(metavar="LIMIT", min=0, help="In TensorCores, chips or calls a minute.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="For whoever decides.")]
RequestId = Annotated[str, typer.Argument(metavar="ID", help="As `tpuctl quota list` shows it.")]


def _used(row: dict[str, Any]) -> str:
    return f"{bar(share(row['inUse'], row['limit'])).plain} {row['inUse']}"


WHAT = (
    Column("OF", lambda row: row.get("method") or f"{row['generation']} {row['kind']}"),
    Column("WHERE", lambda row: "" if row.get("method") else row["location"]),
)
LIMIT = Column("LIMIT", lambda row: f"{row['limit']} {row['unit']}")
QUOTAS = (Column("PROJECT", lambda row: row["project"]), *WHAT, Column("IN USE", _used), LIMIT)
REQUESTS = (
    Column("REQUEST", lambda row: row["id"]),
    Column("STATE", lambda row: row["state"]),
    *WHAT,
    LIMIT,
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
            what = [row["method"]] if row.get("method") else [row["location"], row["generation"], row["kind"]]
            print("/".join([row["project"], *what]))
        return
    if output.is_data:
        show_data({"quotas": quotas, "requests": requests}, output)
        return
    show_list(quotas, QUOTAS, output, "No limits: set one with tpuctl quota set -g v4 32.")
    if requests:
        print()
        show_list(requests, REQUESTS, output, "")


@app.command("set")
def set_quota(
    limit: LimitArgument,
    generation: Generation = "",
    location: Location = EVERY,
    kind: Kind = Provisioning.ON_DEMAND,
    chips: Chips = False,
    method: Method = "",
    project: Project = None,
) -> None:
    """Set a limit; a lower one than is in use takes nothing away. Needs an admin of all projects."""
    from tpuctl.api.names import default_project
    from tpuctl.api.quota import Quota
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    whose, wanted = project or default_project(), _wanted(limit, generation, location, kind, chips, method)
    with connect() as client:
        client.set_quota(Quota(project=whose, **wanted.model_dump()))
    terminal.say(f"Project {whose} may have {_said(wanted)}")


@app.command("request")
def request_quota(
    limit: LimitArgument,
    generation: Generation = "",
    location: Location = EVERY,
    kind: Kind = Provisioning.ON_DEMAND,
    chips: Chips = False,
    method: Method = "",
    reason: Reason = "",
    project: Project = None,
) -> None:
    """Ask for another limit; an admin approves or denies it."""
    from tpuctl.api.quota import QuotaRequest
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    wanted = _wanted(limit, generation, location, kind, chips, method)
    with connect() as client:
        made = client.request_quota(QuotaRequest(reason=reason, **wanted.model_dump()), project)
    print(made.id)
    terminal.say(f"Quota request {made.id} waits for an admin: tpuctl quota approve {made.id}")


def _wanted(limit: int, generation: str, location: str, kind: Provisioning, chips: bool, method: str) -> Limit:
    """Raises Problem."""
    from tpuctl.api.quota import Limit, Unit

    if bool(generation) == bool(method):
        hint = "such as -g v4 for slices, or --method nodes.create for calls a minute"
        raise Problem("give either --generation or --method", hint, exit_codes.USAGE)
    unit = Unit.REQUESTS if method else Unit.CHIPS if chips else Unit.CORES
    return Limit(location=location, generation=generation, kind=kind, method=method, limit=limit, unit=unit)


def _said(wanted: Limit) -> str:
    if wanted.method:
        return f"{wanted.limit} calls a minute" + ("" if wanted.method == EVERY else f" of {wanted.method}")
    where = "in any region" if wanted.location == EVERY else f"in {wanted.location}"
    return f"{wanted.limit} {wanted.kind} {wanted.unit} of {wanted.generation} {where}"


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
