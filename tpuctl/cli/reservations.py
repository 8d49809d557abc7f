"""Reservations on the command line: chips that are kept for some projects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tpuctl.cli import complete, zones
from tpuctl.cli.options import Output, Yes, Zone
from tpuctl.cli.output import Column, Format, show_list
from tpuctl.cli.units import UNKNOWN

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation.")]
Generation = Annotated[
    str,
    typer.Option("--generation", "-g", metavar="GENERATION", help="Such as v4.", autocompletion=complete.generations),
]
Chips = Annotated[int, typer.Option("--chips", metavar="N", min=1, help="How many of its chips.")]
When = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="In UTC.")]
Share = Annotated[list[str] | None, typer.Option("--share", metavar="PROJECT", help="These may use it, too.")]

COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("PROJECT", lambda row: row["project"]),
    Column("ZONE", lambda row: row["zone"]),
    Column("GENERATION", lambda row: row["generation"]),
    Column("IN USE", lambda row: f"{row['inUse']} of {row['chips']} chips"),
    Column("START", lambda row: str(row.get("start") or UNKNOWN)[:10], wide=True),
    Column("END", lambda row: str(row.get("end") or UNKNOWN)[:10]),
    Column("SHARED WITH", lambda row: ", ".join(row.get("sharedWith") or ()) or UNKNOWN, wide=True),
)


def create(
    name: Name,
    generation: Generation,
    chips: Chips,
    start: When = None,
    end: When = None,
    share: Share = None,
    zone: Zone = None,
) -> None:
    """Keep chips for a project's reserved slices, which take from reservations only. Needs an admin of all projects."""
    from tpuctl.api.names import default_project, default_zone
    from tpuctl.api.reservations import ReservationSpec
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    wanted = ReservationSpec(
        name=name,
        project=default_project(),
        zone=zones.of_generation(generation, zone) or default_zone(),
        generation=generation,
        chips=chips,
        start=_utc(start),
        end=_utc(end),
        shared_with=share or [],
    )
    with connect() as client:
        client.create_reservation(wanted)
    terminal.say(f"Reservation {name}: {chips} chips of {generation} in {wanted.zone}")


def listing(output: Output = Format.TABLE) -> None:
    """List the project's reservations, and those shared with it."""
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    found = read(f"/tpuctl/v1/projects/{default_project()}/reservations").get("reservations") or []
    show_list(found, COLUMNS, output, "No reservations. Make one: tpuctl create reservation NAME -g v4 --chips 64")


def delete(name: Name, zone: Zone = None, yes: Yes = False) -> None:
    """Delete a reservation; slices that use it stay. Asks first when it is run in a terminal."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    if not yes and terminal.is_interactive() and not typer.confirm(f"Delete reservation {name}?", err=True):
        return
    with connect() as client:
        client.delete_reservation(name, zone or _zone_of(name))
    terminal.say(f"Reservation {name} is deleted")


def _zone_of(name: str) -> str | None:
    """That of the only reservation of the project's with this name."""
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    project = default_project()
    found = read(f"/tpuctl/v1/projects/{project}/reservations").get("reservations") or []
    places = [row["zone"] for row in found if (row["name"], row["project"]) == (name, project)]
    return places[0] if len(places) == 1 else None


def _utc(when: datetime | None) -> datetime | None:
    return None if when is None else when.replace(tzinfo=UTC)
