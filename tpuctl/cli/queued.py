"""Queued resources on the command line: requests for slices that wait until there is room."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from tpuctl.cli import exit_codes, zones
from tpuctl.cli.create import Generation, Topology, Type, chosen, spec_of
from tpuctl.cli.options import Contiguous, Output, Reserved, Slices, Spot, Wait, Watch, Yes, Zone
from tpuctl.cli.output import Column, Format, Resource, short_name, show_data, show_list
from tpuctl.cli.problems import Problem
from tpuctl.cli.units import UNKNOWN, age_text

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queued resource.")]
Node = Annotated[
    str | None, typer.Option("--node", metavar="NAME", help="Name of the slice.", show_default="NAME-node")
]
BestEffort = Annotated[bool, typer.Option("--best-effort", help="The same, as v2alpha1 calls it.")]
ValidAfter = Annotated[
    str | None, typer.Option("--valid-after", metavar="DURATION", help="Not before so long from now, such as 30m.")
]
ValidUntil = Annotated[
    str | None, typer.Option("--valid-until", metavar="DURATION", help="FAILED if it waits longer, such as 2h.")
]
Force = Annotated[bool, typer.Option("--force", help="Its slices, too.")]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def create(
    name: Name,
    type: Type = None,
    generation: Generation = None,
    topology: Topology = None,
    slices: Slices = 1,
    node: Node = None,
    spot: Spot = False,
    best_effort: BestEffort = False,
    reserved: Reserved = False,
    contiguous: Contiguous = False,
    valid_after: ValidAfter = None,
    valid_until: ValidUntil = None,
    zone: Zone = None,
) -> None:
    """Ask for a slice and wait in the queue until there is room for it."""
    from tpuctl.api.queued import BestEffort as BestEffortTier
    from tpuctl.api.queued import (
        Guaranteed,
        MultisliceParams,
        QueuedNodeSpec,
        QueuedResource,
        QueueingPolicy,
        Tpu,
    )
    from tpuctl.api.queued import Spot as SpotTier
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    if spot + best_effort + reserved > 1:
        raise Problem("give only one of --spot, --best-effort and --reserved", "", exit_codes.USAGE)
    if valid_after and valid_until:
        raise Problem("give only one of --valid-after and --valid-until", "", exit_codes.USAGE)
    kind = chosen(type, generation, topology)
    spec = QueuedNodeSpec(node=spec_of(kind, contiguous=contiguous))
    if slices > 1:
        spec.multislice_params = MultisliceParams(node_count=slices, node_id_prefix=node or f"{name}-node")
    else:
        spec.node_id = node or f"{name}-node"
    policy = None
    if valid_after or valid_until:
        policy = QueueingPolicy(
            valid_after_duration=_duration(valid_after), valid_until_duration=_duration(valid_until)
        )
    asked = QueuedResource(
        tpu=Tpu(node_spec=[spec]),
        spot=SpotTier() if spot else None,
        best_effort=BestEffortTier() if best_effort else None,
        guaranteed=Guaranteed(reserved=True) if reserved else None,
        queueing_policy=policy,
    )
    with connect() as client:
        client.create_queued(name, asked, zones.of_kind(kind, zone))
    terminal.say(f"Queued resource {name} is in the queue: tpuctl describe queued-resource {name}")


def delete(name: Name, force: Force = False, zone: Zone = None, wait: Wait = True, yes: Yes = False) -> None:
    """Delete a queued resource; one that has slices only with --force. Asks first when it is run in a terminal."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect
    from tpuctl.cli.steps import step

    question = f"Delete queued resource {name}{' with its slices and all that is in their HBM' if force else ''}?"
    if not yes and terminal.is_interactive() and not typer.confirm(question, err=True):
        return
    with connect() as client:
        operation = client.delete_queued(name, force=force, zone=_zone_of(name, zone))
        if not wait:
            terminal.say(f"Queued resource {name} is being deleted")
            return
        with step(f"Deleting queued resource {name}", f"Queued resource {name} is deleted"):
            client.wait(operation)


def listing(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List queued resources, the oldest first."""
    from tpuctl.cli.watch import repeat

    empty = "No queued resources. Ask for one: tpuctl create queued-resource NAME --type v4-8"
    repeat(lambda: show_list(_read_all(), COLUMNS, output, empty), watch)


def describe(name: Name, zone: Zone = None, output: Output = Format.TABLE) -> None:
    """Describe a queued resource: its state, what it waits for, its place in the queue, what has happened."""
    from tpuctl.api.names import default_project, default_zone
    from tpuctl.cli.reader import read

    place = f"projects/{default_project()}/locations/{_zone_of(name, zone) or default_zone()}"
    found = read(f"/tpuctl/v1/{place}/queuedResources/{quote(name, safe='')}")
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.queued_view import queued_view

    terminal.stdout().print(queued_view(found))


def _read_all() -> list[Resource]:
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    project = default_project()
    rows = read(f"/v2/projects/{project}/locations/-/queuedResources").get("queuedResources") or []
    waits = {one["name"]: one for one in read(f"/tpuctl/v1/projects/{project}/queue").get("waiting") or []}
    return [row | {"waits": waits.get(row["name"])} for row in rows]


def _zone_of(name: str, zone: str | None) -> str | None:
    """The zone of the only queued resource of this name, where none is given."""
    if zone:
        return zone
    places = [row["name"].split("/") for row in _read_all()]
    found = [place[3] for place in places if place[-1] == name]
    return found[0] if len(found) == 1 else None


def _duration(text: str | None) -> str | None:
    """``90m`` as the API writes it: ``5400s``. Raises Problem."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.replace(".", "", 1).isdigit():
        raise Problem(f"{text!r} is no duration", "write it as 90s, 30m, 2h or 1d", exit_codes.USAGE)
    return f"{float(number) * UNITS[unit]:g}s"


def tier(row: Resource) -> str:
    if "guaranteed" in row:
        return "reserved" if (row["guaranteed"] or {}).get("reserved") else "guaranteed"
    return "spot" if "spot" in row else "best effort" if "bestEffort" in row else "on-demand"


def asked_for(row: Resource) -> str:
    """``2 x v4-16``."""
    from tpuctl.api.names import shape_text

    specs = (row.get("tpu") or {}).get("nodeSpec") or []
    if not specs:
        return UNKNOWN
    several = specs[0].get("multisliceParams") or {}
    node = specs[0].get("node") or {}
    config = node.get("acceleratorConfig") or {}
    kind = node.get("acceleratorType") or f"{config.get('type', UNKNOWN)} {config.get('topology', '')}".strip()
    return shape_text(kind, several.get("nodeCount") or len(specs))


def state(row: Resource) -> str:
    return str((row.get("state") or {}).get("state", UNKNOWN))


def _position(row: Resource) -> str:
    waits: dict[str, Any] = row.get("waits") or {}
    return str(waits.get("position", UNKNOWN))


COLUMNS = (
    Column("NAME", short_name),
    Column("ZONE", lambda row: str(row["name"].split("/")[3])),
    Column("ASKS FOR", asked_for),
    Column("TIER", tier),
    Column("STATE", state),
    Column("POSITION", _position),
    Column("AGE", lambda row: age_text(row.get("createTime"))),
    Column("WAITS BECAUSE", lambda row: str((row.get("waits") or {}).get("reason", UNKNOWN)), wide=True),
)
