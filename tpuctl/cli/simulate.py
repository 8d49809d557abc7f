"""tpuctl simulate: what would become of a request."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import exit_codes, zones
from tpuctl.cli.create import Generation, Topology, Type
from tpuctl.cli.options import Output, Slices, Zone
from tpuctl.cli.output import Format, show_data

app = typer.Typer(help="See what would become of a request; nothing is made.", no_args_is_help=True)

Contiguous = Annotated[
    bool, typer.Option("--contiguous", help="One box of chips, also where switches could join any cubes.")
]
Reservation = Annotated[
    str | None, typer.Option("--reservation", metavar="NAME", help="In the parts of a reservation.")
]


@app.command("placement")
def placement(
    type: Type = None,
    generation: Generation = None,
    topology: Topology = None,
    slices: Slices = 1,
    contiguous: Contiguous = False,
    reservation: Reservation = None,
    zone: Zone = None,
    output: Output = Format.TABLE,
) -> None:
    """Where in the pods a slice would go now; if nowhere, what is in its way and what would make room."""
    from tpuctl.api.nodes import SchedulingConfig
    from tpuctl.cli.create import chosen, spec_of
    from tpuctl.cli.plane import connect
    from tpuctl.control.placing import CONTIGUOUS

    kind = chosen(type, generation, topology)
    scheduling = SchedulingConfig(reserved=True, reservation_name=reservation) if reservation else None
    labels = {CONTIGUOUS: "true"} if contiguous else None
    spec = spec_of(kind).model_copy(update={"scheduling_config": scheduling, "labels": labels})
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
