"""tpuctl attach: what a local process needs in its environment to use a slice."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tpuctl.cli.options import Output, SliceName, Zone
from tpuctl.cli.output import Format, show_data
from tpuctl.cli.shells import ShellOption, current_shell, export, to_use

Tcp = Annotated[bool, typer.Option("--tcp", help="Over the slice's TCP endpoint instead of its Unix socket.")]


Worker = Annotated[
    int | None,
    typer.Option("--worker", metavar="N", min=0, help="For process N of several; without it one drives the slice."),
]
Processes = Annotated[
    int | None, typer.Option("--processes", metavar="P", min=1, help="With --worker: of how many; one a host.")
]


def attach(
    name: SliceName,
    zone: Zone = None,
    tcp: Tcp = False,
    worker: Worker = None,
    processes: Processes = None,
    shell: ShellOption = None,
    output: Output = Format.TABLE,
) -> None:
    """Print the exports that let any local process or notebook use a slice: eval "$(tpuctl attach NAME)"."""
    from tpuctl.cli.describe import read_slice

    share = "" if worker is None and processes is None else f"?worker={worker or 0}&processes={processes or 0}"
    found: dict[str, Any] = read_slice(name, zone, share)
    variables: dict[str, str] = found["environmentTcp" if tcp else "environment"]
    if output in (Format.JSON, Format.YAML):
        show_data(variables, output)
        return
    syntax = shell or current_shell()
    for variable, value in variables.items():
        print(export(variable, value, syntax))
    if sys.stdout.isatty():
        print(f"# To use it: {to_use(f'tpuctl attach {name}', syntax)}")
