"""tpuctl create: slices, single devices and full pods."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.api.names import shape_text
from tpuctl.cli import complete, exit_codes, zones
from tpuctl.cli.options import Contiguous, Output, Reservation, Reserved, Slices, Spot, Wait, Zone, valid_slice
from tpuctl.cli.output import Format
from tpuctl.cli.problems import Problem

if TYPE_CHECKING:
    from backend.hardware import AcceleratorType
    from tpuctl.api.nodes import Node, SchedulingConfig

RUNTIME_VERSION = "tpu-ubuntu2204-base"

app = typer.Typer(help="Create a slice, a single device or a full pod.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that no slice has yet.", callback=valid_slice)]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", "-t", metavar="TYPE", help="Accelerator type, such as v3-32.", autocompletion=complete.every_type
    ),
]
Generation = Annotated[
    str | None,
    typer.Option(
        "--generation",
        "-g",
        metavar="GENERATION",
        help="Generation of the chips, such as v4, with --topology.",
        autocompletion=complete.generations,
    ),
]
Topology = Annotated[
    str | None, typer.Option("--topology", metavar="AxBxC", help="Chips along each axis, such as 4x4x8.")
]


class Device(StrEnum):
    """Generations whose single device (one host: 4 chips, 8 cores) can be created by its short name."""

    V2 = "v2"
    V3 = "v3"


@app.command("slice")
def create_slice(
    name: Name,
    type: Type = None,
    generation: Generation = None,
    topology: Topology = None,
    slices: Slices = 1,
    spot: Spot = False,
    reserved: Reserved = False,
    reservation: Reservation = None,
    contiguous: Contiguous = False,
    zone: Zone = None,
    wait: Wait = True,
    output: Output = Format.TABLE,
) -> None:
    """Create a slice: of a --type, or by --generation and --topology."""
    kind, how = chosen(type, generation, topology), scheduling(spot, reserved, reservation)
    _create(name, kind, spec_of(kind, how, contiguous), zone, wait, output, slices)


@app.command("device")
def create_device(
    name: Name,
    type: Annotated[Device, typer.Option("--type", "-t", help="Generation of the device.")],
    zone: Zone = None,
    wait: Wait = True,
    output: Output = Format.TABLE,
) -> None:
    """Create a single device: one host with 4 chips, 8 cores."""
    kind = chosen(f"{type}-8")
    _create(name, kind, spec_of(kind), zone, wait, output)


@app.command("pod")
def create_pod(
    name: Name,
    type: Annotated[
        str,
        typer.Option(
            "--type",
            "-t",
            metavar="GENERATION",
            help="Generation of the pod, such as v3.",
            autocompletion=complete.generations,
        ),
    ],
    zone: Zone = None,
    wait: Wait = True,
    output: Output = Format.TABLE,
) -> None:
    """Create a full pod: all chips of one torus."""
    from backend.hardware import pod_type

    try:
        kind = pod_type(type)
    except ValueError as error:
        raise Problem(str(error), "", exit_codes.USAGE) from None
    _create(name, kind, spec_of(kind), zone, wait, output)


def chosen(type: str | None, generation: str | None = None, topology: str | None = None) -> AcceleratorType:
    """The slice that the options ask for. Raises Problem with what to ask for instead."""
    from backend.hardware import accelerator_type, slice_of

    if (type is None) == (generation is None) or (generation is not None and topology is None):
        hint = "such as --type v3-32, or --generation v4 --topology 4x4x8; see tpuctl create slice --help"
        raise Problem("give --type, or --generation with --topology", hint, exit_codes.USAGE)
    try:
        return slice_of(generation, topology) if generation and topology else accelerator_type(type or "", topology)
    except ValueError as error:
        raise Problem(str(error), "", exit_codes.USAGE) from None


def scheduling(spot: bool, reserved: bool, reservation: str | None) -> SchedulingConfig | None:
    """How the slice is come by; None is on demand. Raises Problem."""
    from tpuctl.api.nodes import SchedulingConfig

    if spot and (reserved or reservation):
        raise Problem("give only one of --spot, --reserved and --reservation", "", exit_codes.USAGE)
    if spot:
        return SchedulingConfig(spot=True)
    return SchedulingConfig(reserved=True, reservation_name=reservation) if reserved or reservation else None


def spec_of(kind: AcceleratorType, how: SchedulingConfig | None = None, contiguous: bool = False) -> Node:
    """A node of this kind as the API takes it: by its type, or in another shape than the type's own by its topology."""
    from backend.hardware import ACCELERATOR_TYPES
    from tpuctl.api.nodes import CONTIGUOUS, AcceleratorConfig, Node
    from tpuctl.control.catalogue import WIRE_TYPES

    node = Node(
        runtime_version=RUNTIME_VERSION, scheduling_config=how, labels={CONTIGUOUS: "true"} if contiguous else None
    )
    if ACCELERATOR_TYPES.get(kind.name) == kind:
        return node.model_copy(update={"accelerator_type": kind.name})
    wire = WIRE_TYPES.get(kind.generation.name)
    if wire is None:
        message = f"a {kind.generation.name} slice can only have its type's own topology, not {kind.topology}"
        raise Problem(message, "Cloud TPU's API has no accelerator config for it", exit_codes.USAGE)
    return node.model_copy(update={"accelerator_config": AcceleratorConfig(type=wire, topology=kind.topology)})


def _create(
    name: str, kind: AcceleratorType, spec: Node, zone: str | None, wait: bool, output: Format, slices: int = 1
) -> None:
    from tpuctl.cli.output import show_data
    from tpuctl.cli.plane import connect
    from tpuctl.cli.steps import report, step

    zone = zones.of_kind(kind, zone)
    with connect() as client:
        started = time.monotonic()
        operation = client.create_node(name, spec, zone, num_slices=slices)
        shape = kind.name if spec.accelerator_type else f"{kind.name}, {kind.topology}"
        what = shape_text(shape, slices)
        if wait:
            with step(f"Creating slice {name} ({what})", f"Slice {name} ({what}) is READY"):
                client.wait(operation)
        else:
            report(f"Slice {name} ({what}) is being created", time.monotonic() - started)
        if output.is_data:
            show_data(client.get_node(name, zone).to_json(), output)
