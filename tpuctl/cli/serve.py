"""tpuctl serve: the control plane, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.api.home import DEFAULT_HOST, DEFAULT_PORT

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    int, typer.Option(min=0, max=65535, envvar="TPUCTL_PORT", help="Port to listen on; 0 takes any free one.")
]


def serve(host: Host = DEFAULT_HOST, port: Port = DEFAULT_PORT) -> None:
    """Run the control plane in the foreground, until Ctrl-C."""
    from tpuctl.server import serve

    serve(host, port)
