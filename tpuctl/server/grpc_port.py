"""Is gRPC served beside HTTP, and on which port? What needs grpcio is imported when somebody calls."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tpuctl.api.errors import FailedPrecondition
from tpuctl.api.home import MAX_PORT, default_grpc_port
from tpuctl.control.access import Principal
from tpuctl.control.plane import ControlPlane
from tpuctl.server.grpc_listener import listening
from tpuctl.server.reach import Tls

if TYPE_CHECKING:
    from grpc import Server

NEEDED = ("grpc", "google.cloud.tpu_v2")
Listen = Callable[[str, int], AbstractContextManager[socket.socket]]
Admit = Callable[[str | None, str], Principal]
"""Who calls with this authorization, from this peer. Raises ApiError."""
log = logging.getLogger("tpuctl.server")


def is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # there is no google.cloud at all
        return False


@contextmanager
def grpc_listener(
    listen: Listen, host: str, http_port: int, port: int | None = None, wanted: bool | None = None
) -> Iterator[socket.socket | None]:
    """The bound socket of gRPC, or None if it isn't served; ``wanted`` None means: if it is installed.

    ``port`` None means TPUCTL_GRPC_PORT, or the one after ``http_port`` if it is free, else any. Raises
    FailedPrecondition if gRPC is wanted (by a port, too) and not installed, or the port that was chosen is taken.
    """
    port = default_grpc_port() if port is None else port
    asked_for = wanted or (wanted is None and port is not None)
    if asked_for and not is_installed():
        raise FailedPrecondition("gRPC is not installed: pip install 'tpuctl[grpc]', or serve without it: --no-grpc")
    if wanted is False or not is_installed():
        yield None
        return
    with ExitStack() as stack:
        if port is not None:
            listener = stack.enter_context(listen(host, port))
        else:
            listener = _near(stack, listen, host, http_port)
        yield listener


def _near(stack: ExitStack, listen: Listen, host: str, http_port: int) -> socket.socket:
    """On the next port. Nobody has chosen it, so it need not be that one."""
    try:
        return stack.enter_context(listen(host, http_port + 1 if 0 < http_port < MAX_PORT else 0))
    except FailedPrecondition as error:
        log.warning("gRPC gets another port", extra={"reason": error.message})
        return stack.enter_context(listen(host, 0))


def served(
    plane: ControlPlane, admit: Admit, listener: socket.socket, tls: Tls | None = None
) -> AbstractAsyncContextManager[None]:
    """Serves gRPC on ``listener``, over TLS if it is given, until the block ends."""

    def start() -> Server:
        import grpc

        from tpuctl.server.grpc_front import start

        host, port, *_ = listener.getsockname()
        pair = tls and (tls.key.read_bytes(), tls.certificate.read_bytes())
        credentials = grpc.ssl_server_credentials([pair]) if pair else None
        return start(plane, admit, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", credentials)

    return listening(listener, start)
