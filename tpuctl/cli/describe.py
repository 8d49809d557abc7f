"""tpuctl describe: one slice, job, pod or accelerator type in full."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from tpuctl.cli import complete, exit_codes, zones
from tpuctl.cli.options import JobName, Output, SliceName, Zone
from tpuctl.cli.output import Format, show_data
from tpuctl.cli.problems import Problem

SECRETS = frozenset({"environment", "environmentTcp"})

app = typer.Typer(help="Describe a slice, a job, a pod or an accelerator type.", no_args_is_help=True)


@app.command("slice")
def describe_slice(name: SliceName, zone: Zone = None, output: Output = Format.TABLE) -> None:
    """Describe a slice: its endpoint, its chips, and what is in their HBM."""
    found = {field: value for field, value in read_slice(name, zone).items() if field not in SECRETS}
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.describe_view import slice_view

    console = terminal.stdout()
    console.print(slice_view(found, terminal.columns(console, console.width), wide=output is Format.WIDE))


@app.command("job")
def describe_job(name: JobName, output: Output = Format.TABLE) -> None:
    """Describe a job: its command, its metrics, its artifacts."""
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    found = read(f"/tpuctl/v1/projects/{default_project()}/jobs/{quote(name, safe='')}")
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.describe_view import job_view

    terminal.stdout().print(job_view(found, wide=output is Format.WIDE))


@app.command("pod")
def describe_pod(
    name: Annotated[str, typer.Argument(metavar="POD", help="As `tpuctl status pods` shows it.")],
    output: Output = Format.TABLE,
) -> None:
    """Draw a pod with its slices: who has which chips, what is free, reserved or broken."""
    from tpuctl.cli.reader import read

    found = read(f"/tpuctl/v1/pods/{quote(name, safe='')}")
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.pods_view import pod_view

    console = terminal.stdout()
    console.print(pod_view(found, terminal.columns(console, console.width)))


@app.command("type")
def describe_type(
    name: Annotated[
        str,
        typer.Argument(metavar="TYPE", help="Accelerator type, such as v3-32.", autocompletion=complete.every_type),
    ],
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="AxBxC", help="Another shape of as many chips.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Describe an accelerator type: its chips, hosts and links on the torus, and its speed."""
    from backend.hardware import accelerator_type

    try:
        kind = accelerator_type(name, topology)
    except ValueError as error:
        raise Problem(str(error), "", exit_codes.USAGE) from None
    if output.is_data:
        from tpuctl.cli.types import facts

        show_data({"name": kind.name} | facts(kind), output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.type_view import type_view

    console = terminal.stdout()
    console.print(type_view(kind, terminal.columns(console)), soft_wrap=True)


def read_slice(name: str, zone: str | None, query: str = "") -> dict[str, Any]:
    """A slice's telemetry, with what a local process needs to use it; ``query`` says which of several processes."""
    from tpuctl.api.names import default_project, default_zone
    from tpuctl.cli.reader import read

    zone = zones.of_slice(name, zone)
    location = f"projects/{default_project()}/locations/{quote(zone or default_zone(), safe='')}"
    found: dict[str, Any] = read(f"/tpuctl/v1/{location}/slices/{quote(name, safe='')}{query}")
    return found
