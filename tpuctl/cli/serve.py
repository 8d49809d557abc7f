"""tpuctl serve: the control plane, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.api.home import DEFAULT_HOST, DEFAULT_PORT

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    int, typer.Option(min=0, max=65535, envvar="TPUCTL_PORT", help="Port to listen on; 0 takes any free one.")
]

Grpc = Annotated[
    bool | None, typer.Option("--grpc/--no-grpc", help="Serve gRPC, too.", show_default="if it is installed")
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        envvar="TPUCTL_GRPC_PORT",
        help="Port for gRPC; 0 takes any free one.",
        show_default="the one after --port",
    ),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve over TLS with this certificate (PEM).")
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Let anybody on this machine call without a token.")]

Fleet = Annotated[
    Path | None,
    typer.Option(
        "--fleet",
        metavar="FILE",
        envvar="TPUCTL_FLEET",
        help="Which pods there are (TOML or YAML).",
        show_default="fleet.toml of the home, or more than anyone needs",
    ),
]


def serve(
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    grpc: Grpc = None,
    grpc_port: GrpcPort = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    anonymous: Anonymous = False,
    fleet: Fleet = None,
) -> None:
    """Run the control plane in the foreground, until Ctrl-C."""
    from tpuctl.server import serve
    from tpuctl.server.reach import tls_of

    tls = tls_of(tls_cert, tls_key)
    serve(host, port, grpc=grpc, grpc_port=grpc_port, tls=tls, anonymous=anonymous, fleet=fleet)
