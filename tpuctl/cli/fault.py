"""tpuctl fault: links, chips and hosts of a slice that fail, and recover; and faults of the API (fault_api)."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import complete, fault_api, zones
from tpuctl.cli.options import Output, Zone, valid_slice
from tpuctl.cli.output import Column, Format, show_list

app = typer.Typer(
    help="Let a link, a chip or a host of a slice fail, or recover; or the API.",
    no_args_is_help=True,
)
app.add_typer(fault_api.app, name="api")

SliceName = Annotated[
    str,
    typer.Argument(metavar="SLICE", help="Name of the slice.", autocompletion=complete.slices, callback=valid_slice),
]
Recover = Annotated[bool, typer.Option("--recover", help="It works again.")]
SliceIndex = Annotated[
    int, typer.Option("--slice-index", metavar="K", min=0, help="Which slice of a multislice; the first by default.")
]

COLUMNS = (
    Column("PART", lambda row: row["part"]),
    Column("WHERE", lambda row: " ".join(row["where"])),
    Column("SLICE INDEX", lambda row: str(row.get("sliceIndex", 0)), wide=True),
    Column("CHIPS", lambda row: " ".join(row.get("chips") or row["where"] if row["part"] != "link" else [])),
)


@app.command("link")
def fault_link(
    name: SliceName,
    one: Annotated[str, typer.Argument(metavar="CHIP", help="Coordinates of a chip, such as 0,0.")],
    other: Annotated[str, typer.Argument(metavar="CHIP", help="Coordinates of a neighbour of it.")],
    recover: Recover = False,
    slice_index: SliceIndex = 0,
    zone: Zone = None,
) -> None:
    """Traffic goes around a failed link, and gets slower; where it can't, launches fail."""
    _change(name, "link", [one, other], recover, slice_index, zone)


@app.command("chip")
def fault_chip(
    name: SliceName,
    where: Annotated[str, typer.Argument(metavar="CHIP", help="Coordinates of the chip, such as 0,1.")],
    recover: Recover = False,
    slice_index: SliceIndex = 0,
    zone: Zone = None,
) -> None:
    """Launches that use a failed chip fail; the traffic of others goes around it."""
    _change(name, "chip", [where], recover, slice_index, zone)


@app.command("host")
def fault_host(
    name: SliceName,
    index: Annotated[str, typer.Argument(metavar="INDEX", help="Index of the host.")],
    recover: Recover = False,
    zone: Zone = None,
) -> None:
    """A failed host takes its chips with it."""
    _change(name, "host", [index], recover, 0, zone)


@app.command("pod")
def fault_pod(
    pod: Annotated[str, typer.Argument(metavar="POD", help="As `tpuctl status pods` shows it.")],
    chip: Annotated[str, typer.Argument(metavar="CHIP", help="Coordinates of a chip in the pod, such as 3,0,1.")],
    recover: Recover = False,
) -> None:
    """No slice gets a chip of a pod that has failed."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        client.set_pod_chip(pod, chip, recover=recover)
    terminal.say(f"Chip {chip} of pod {pod} {'works again' if recover else 'has failed'}")


@app.command("repair")
def repair(name: SliceName, zone: Zone = None) -> None:
    """Move a slice with failed chips to others of the pods, and restart it; what is in its HBM is lost."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        client.repair(name, zones.of_slice(name, zone))
    terminal.say(f"Slice {name} is being repaired: tpuctl describe slice {name}")


@app.command("list")
def list_faults(name: SliceName, zone: Zone = None, output: Output = Format.TABLE) -> None:
    """List what of a slice has failed."""
    from tpuctl.cli.chip_picture import shown_faults
    from tpuctl.cli.describe import read_slice

    found = shown_faults(read_slice(name, zone))
    rows = [row | {"name": f"{row['part']}/{'/'.join(row['where'])}"} for row in found]
    show_list(rows, COLUMNS, output, f"All parts of slice {name} work.")


def _change(name: str, part: str, where: list[str], recover: bool, slice_index: int, zone: str | None) -> None:
    from tpuctl.api.status import FaultRequest
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    request = FaultRequest(part=part, where=where, slice_index=slice_index, recover=recover)
    with connect() as client:
        client.fault(name, request, zones.of_slice(name, zone))
    place = f"{part} {' - '.join(where)} of slice {name}"
    if recover:
        terminal.say(f"{place[0].upper()}{place[1:]} works again")
        return
    options = f" --slice-index {slice_index}" * bool(slice_index) + f" --zone {zone}" * (zone is not None)
    terminal.say(f"{place[0].upper()}{place[1:]} has failed")
    terminal.say(f"  to end that: tpuctl fault {part} {name} {' '.join(where)} --recover{options}")
