"""tpuctl status: the control plane, its slices and its jobs at a glance; or the pods that slices lie in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tpuctl.cli.options import Output, Watch
from tpuctl.cli.output import Format, show_data


class What(StrEnum):
    ALL = "all"
    PODS = "pods"


def status(
    what: Annotated[What, typer.Argument(help="The control plane's slices and jobs, or its pods.")] = What.ALL,
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """Show the control plane, its slices with their telemetry, and its jobs; or the pods and what is in them."""
    from tpuctl.cli.watch import repeat

    repeat(lambda: (_show_pods if what is What.PODS else _show)(output), watch)


def _show(output: Format) -> None:
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    found = read(f"/tpuctl/v1/status?project={default_project()}")
    if output is Format.NAME:
        show_data([*found["slices"], *found["jobs"]], output)
    elif output.is_data:
        show_data(found, output)
    else:
        from tpuctl.cli import terminal
        from tpuctl.cli.status_view import status_view

        console = terminal.stdout()
        console.print(status_view(found, console.width, wide=output is Format.WIDE))


def _show_pods(output: Format) -> None:
    from tpuctl.cli.reader import read

    found = read("/tpuctl/v1/pods")["pods"]
    if output.is_data:
        show_data(found, output)
        return
    from tpuctl.cli import terminal
    from tpuctl.cli.pods_view import pods_view

    console = terminal.stdout()
    console.print(pods_view(found, console.width, wide=output is Format.WIDE))
