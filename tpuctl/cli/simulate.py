"""tpuctl simulate: what would become of a request."""

from __future__ import annotations

import typer

from tpuctl.cli import exit_codes, zones
from tpuctl.cli.create import Generation, Topology, Type
from tpuctl.cli.options import Contiguous, Output, Reservation, Reserved, Slices, Spot, Zone
from tpuctl.cli.output import Format, show_data

app = typer.Typer(help="See what would become of a request; nothing is made.", no_args_is_help=True)


@app.command("placement")
def placement(
    type: Type = None,
    generation: Generation = None,
    topology: Topology = None,
    slices: Slices = 1,
    spot: Spot = False,
    reserved: Reserved = False,
    reservation: Reservation = None,
    contiguous: Contiguous = False,
    zone: Zone = None,
    output: Output = Format.TABLE,
) -> None:
    """Where in the pods a slice would go now; if nowhere, what is in its way and what would make room."""
    from tpuctl.cli.create import chosen, scheduling, spec_of
    from tpuctl.cli.plane import connect

    kind = chosen(type, generation, topology)
    spec = spec_of(kind, scheduling(spot, reserved, reservation), contiguous)
    with connect() as client:
        found = client.simulate_placement(spec, slices, zones.of_kind(kind, zone)).to_json()
    if output.is_data:
        show_data(found, output)
    else:
        from tpuctl.cli import terminal
        from tpuctl.cli.pods_view import placement_view

        terminal.stdout().print(placement_view(found))
    if not found.get("parts"):
        raise typer.Exit(exit_codes.EXHAUSTED)
