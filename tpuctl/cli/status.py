"""tpuctl status: the control plane, its slices and its jobs at a glance."""

from __future__ import annotations

from tpuctl.cli.options import Output, Watch
from tpuctl.cli.output import Format, show_data


def status(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """Show the control plane, its slices with their telemetry, and its jobs."""
    from tpuctl.cli.watch import repeat

    repeat(lambda: _show(output), watch)


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
