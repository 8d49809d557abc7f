"""tpuctl create: slices, single devices and full pods."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from tpuctl.cli import complete, exit_codes
from tpuctl.cli.options import Output, Wait, Zone, valid_slice
from tpuctl.cli.output import Format
from tpuctl.cli.problems import Problem

RUNTIME_VERSION = "tpu-ubuntu2204-base"

app = typer.Typer(help="Create a slice, a single device or a full pod.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that no slice has yet.", callback=valid_slice)]
Type = Annotated[
    str,
    typer.Option("--type", "-t", metavar="TYPE", help="Accelerator type, such as v3-8.", autocompletion=complete.types),
]


class Device(StrEnum):
    """Generations whose single device (one host: 4 chips, 8 cores) can be created by its short name."""

    V2 = "v2"
    V3 = "v3"


Slices = Annotated[
    int,
    typer.Option("--slices", metavar="K", min=1, help="Join K such slices over the data-centre network."),
]


@app.command("slice")
def create_slice(
    name: Name, type: Type, slices: Slices = 1, zone: Zone = None, wait: Wait = True, output: Output = Format.TABLE
) -> None:
    """Create a slice."""
    _create(name, type, zone, wait, output, slices)


@app.command("device")
def create_device(
    name: Name,
    type: Annotated[Device, typer.Option("--type", "-t", help="Generation of the device.")],
    zone: Zone = None,
    wait: Wait = True,
    output: Output = Format.TABLE,
) -> None:
    """Create a single device: one host with 4 chips, 8 cores."""
    _create(name, f"{type}-8", zone, wait, output)


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
    _create(name, kind.name, zone, wait, output)


def _create(name: str, accelerator_type: str, zone: str | None, wait: bool, output: Format, slices: int = 1) -> None:
    from tpuctl.api.nodes import Node
    from tpuctl.cli.output import show_data
    from tpuctl.cli.plane import connect
    from tpuctl.cli.steps import report, step

    with connect() as client:
        started = time.monotonic()
        spec = Node(accelerator_type=accelerator_type, runtime_version=RUNTIME_VERSION)
        operation = client.create_node(name, spec, zone, num_slices=slices)
        what = f"{slices} x {accelerator_type}" if slices > 1 else accelerator_type
        if wait:
            with step(f"Creating slice {name} ({what})", f"Slice {name} ({what}) is READY"):
                client.wait(operation)
        else:
            report(f"Slice {name} ({what}) is being created", time.monotonic() - started)
        if output.is_data:
            show_data(client.get_node(name, zone).to_json(), output)
