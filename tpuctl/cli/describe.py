"""tpuctl describe: one slice or job in full."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import typer

from tpuctl.cli.options import JobName, Output, SliceName, Zone
from tpuctl.cli.output import Format, show_data

SECRETS = frozenset({"environment", "environmentTcp"})

app = typer.Typer(help="Describe a slice or a job.", no_args_is_help=True)


@app.command("slice")
def describe_slice(name: SliceName, zone: Zone = None, output: Output = Format.TABLE) -> None:
    """Describe a slice: its endpoint, its chips, and what is in their HBM."""
    found = {field: value for field, value in read_slice(name, zone).items() if field not in SECRETS}
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.describe_view import slice_view

    terminal.stdout().print(slice_view(found, wide=output is Format.WIDE))


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


def read_slice(name: str, zone: str | None, query: str = "") -> dict[str, Any]:
    """A slice's telemetry, with what a local process needs to use it; ``query`` says which of several processes."""
    from tpuctl.api.names import default_project, default_zone
    from tpuctl.cli.reader import read

    location = f"projects/{default_project()}/locations/{quote(zone or default_zone(), safe='')}"
    found: dict[str, Any] = read(f"/tpuctl/v1/{location}/slices/{quote(name, safe='')}{query}")
    return found
