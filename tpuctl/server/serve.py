"""Running the control plane: one for each home, over HTTP and gRPC, until it is told to end."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import uvicorn

import tpuctl
from backend.files import read_json, try_lock, write_json
from backend.host.executor import LocalExecutor
from backend.log import log_to
from tpuctl.api.errors import Aborted, ApiError, FailedPrecondition, InvalidArgument, ResourceExhausted
from tpuctl.api.fleet import FleetFile
from tpuctl.api.home import DEFAULT_HOST, Home, default_port
from tpuctl.control.fleet_file import default_fleet, read_fleet
from tpuctl.control.plane import ControlPlane
from tpuctl.server.app import application
from tpuctl.server.auth import load_token
from tpuctl.server.grpc_port import grpc_listener, served
from tpuctl.server.proxy import Proxy
from tpuctl.server.reach import Tls, check_reach, own_context, url_of

SHUTDOWN_SECONDS = 3
LOCK_SECONDS = 2.0
HTTP_PORT, GRPC_PORT = "--port PORT` or TPUCTL_PORT", "--grpc-port PORT` or TPUCTL_GRPC_PORT"
"""How each is chosen."""
log = logging.getLogger("tpuctl.server")


def serve(
    host: str = DEFAULT_HOST,
    port: int | None = None,
    home: Home | None = None,
    executor: LocalExecutor | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
    tls: Tls | None = None,
    anonymous: bool = False,
    grpc: bool | None = None,
    grpc_port: int | None = None,
    fleet: Path | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``on_ready`` is called with the URL once requests are answered.

    Over TLS with ``tls``, without a token if ``anonymous``; InvalidArgument if ``host`` does not allow for that.
    ``port`` 0 takes any free one; None means TPUCTL_PORT or 8476. ``grpc`` is whether gRPC is served, too, on
    ``grpc_port`` (grpc_port.py); None: if it is installed. ``fleet`` says which pods there are, by default the home's
    file of that name, if there is one. Raises Aborted if another control plane has this home,
    FailedPrecondition if a port is taken, the home cannot be used, or gRPC is wanted and not installed.
    """
    home = home or Home.find()
    check_reach(host, tls, anonymous)
    _make_home(home)
    port = default_port() if port is None else port
    with (
        _only_one(home),
        _listen(host, port) as listener,
        grpc_listener(partial(_listen, chosen_by=GRPC_PORT), host, port, grpc_port, grpc) as grpc_socket,
    ):
        log_to(home.log)
        try:
            token = load_token(home)
        except OSError as error:
            raise _disk_error(home, error) from error
        plane = ControlPlane(home, executor, fleet=_fleet(home, fleet))
        plane.access.anonymous = anonymous
        plane.url = url_of(host, listener, tls)
        plane.grpc_url = url_of(host, grpc_socket, tls) if grpc_socket else None

        def announce() -> None:
            _announce(home, plane.url, plane.grpc_url, tls)
            about = {"url": plane.url, "grpc_url": plane.grpc_url}
            log.info("serving", extra=about | {"pid": os.getpid(), "version": tpuctl.__version__})
            on_ready(plane.url)

        def beside() -> AbstractAsyncContextManager[None]:
            if grpc_socket is None:
                return nullcontext()
            return served(plane, plane.access.caller, grpc_socket, tls)

        def address(of: socket.socket) -> tuple[str, int]:
            return urlsplit(plane.url).hostname or DEFAULT_HOST, of.getsockname()[1]

        grpc_address = address(grpc_socket) if grpc_socket else None
        proxy = Proxy(home.path / "proxy", address(listener), grpc_address, own_context(tls))
        config = uvicorn.Config(
            application(plane, token, announce, beside, proxy),
            log_config=None,
            access_log=False,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        server = Server(config, plane)
        with _ended_by_signals(server):
            server.run(sockets=[listener])
        home.server.unlink(missing_ok=True)
        log.info("ended")


def _fleet(home: Home, chosen: Path | None) -> FleetFile:
    if chosen is None and not home.fleet.exists():
        return default_fleet()
    return read_fleet(chosen or home.fleet)


class Server(uvicorn.Server):
    """Tells the control plane when it is asked to end, so that streams end too."""

    def __init__(self, config: uvicorn.Config, plane: ControlPlane) -> None:
        super().__init__(config)
        self._plane = plane

    def handle_exit(self, sig: int, frame: object) -> None:
        self._plane.ending = True
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


@contextmanager
def _ended_by_signals(server: Server) -> Iterator[None]:
    """SIGTERM and SIGINT end the server, also when uvicorn raises them again after its own handling of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, server.handle_exit) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _make_home(home: Home) -> None:
    try:
        home.make()
    except OSError as error:
        raise _disk_error(home, error) from error


@contextmanager
def _only_one(home: Home) -> Iterator[None]:
    """Holds the home's lock. Raises Aborted if another control plane does; one that is about to end is waited for."""
    try:
        lock = os.open(home.lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _disk_error(home, error) from error
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not try_lock(lock):
            if home.server.exists() or time.monotonic() > deadline:
                raise _other_runs(home)
            time.sleep(0.02)
        yield
    finally:
        os.close(lock)


def _other_runs(home: Home) -> Aborted:
    other = read_json(home.server) or {}
    where = f" (pid {other['pid']}, {other['url']})" if other else ""
    return Aborted(f"a control plane already runs for {home.path}{where}; end it with `tpuctl down`")


@contextmanager
def _listen(host: str, port: int, chosen_by: str = HTTP_PORT) -> Iterator[socket.socket]:
    """A bound socket. Raises InvalidArgument for a bad address, FailedPrecondition if the port is taken."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, OverflowError) as error:
        raise InvalidArgument(f"cannot serve on {host}:{port}: {error}") from error
    with socket.socket(family, kind) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise _port_error(host, port, chosen_by, error) from error
        yield listener


def _port_error(host: str, port: int, chosen_by: str, error: OSError) -> ApiError:
    if error.errno == errno.EADDRINUSE:
        advice = f"end what uses it, or choose another with `tpuctl serve {chosen_by} (0: any free one)"
        return FailedPrecondition(f"port {port} on {host} is taken; {advice}")
    return FailedPrecondition(f"cannot serve on {host}:{port}: {error.strerror}")


def _announce(home: Home, url: str, grpc_url: str | None, tls: Tls | None) -> None:
    about = {"pid": os.getpid(), "started": psutil.Process().create_time(), "url": url}
    if tls is not None:
        about["certificate"] = str(tls.certificate)
    write_json(home.server, about | ({"grpcUrl": grpc_url} if grpc_url else {}))


def _disk_error(home: Home, error: OSError) -> ApiError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceExhausted(f"the disk of {home.path} is full; free some space and try again")
    return FailedPrecondition(f"cannot use {error.filename or home.path}: {error.strerror}; set TPUCTL_HOME elsewhere")
