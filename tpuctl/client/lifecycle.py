"""Find, start and stop the control plane of this TPUCTL_HOME."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from backend.files import last_line
from tpuctl.api.errors import ApiError, FailedPrecondition, Unauthenticated, Unavailable
from tpuctl.api.home import Home
from tpuctl.client.client import Client
from tpuctl.client.transport import Transport

START_SECONDS = 10.0
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Server:
    """What server.json says of the control plane that wrote it."""

    pid: int
    started: float
    url: str
    certificate: Path | None = None


def connect(autostart: bool = True) -> Client:
    """A client of the control plane of TPUCTL_HOME, started first if need be (at most 10 s).

    Raises Unavailable when it does not run and ``autostart`` is false, or why it did not start.
    """
    home = Home.find()
    server = running(home)
    if server is None:
        if not autostart:
            raise Unavailable(f"no control plane runs for {home.path}; start it with `tpuctl up`")
        server = start(home)
    return Client(server.url, token_of(home), certificate=server.certificate)


def running(home: Home | None = None) -> Server | None:
    """The control plane that answers for ``home``; None if there is none. Raises Unauthenticated on a wrong token."""
    home = home or Home.find()
    try:
        server = _server(json.loads(home.server.read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise _unusable("read", home.server, error) from error
    return server if server is not None and _answers(server, home) else None


def _server(value: Any) -> Server | None:
    """What server.json says, if it has the form that a control plane gives it. Raises ValueError for some others."""
    match value:
        case {"pid": int(pid), "started": int() | float() as started, "url": str(url)} if url.isprintable():
            address, certificate = urlsplit(url), value.get("certificate")
            scheme = "https" if isinstance(certificate, str) else "http"
            at_port = address.scheme == scheme and address.hostname and url.isascii() and address.port
            pinned = Path(certificate) if isinstance(certificate, str) else None
            return Server(pid, started, url, pinned) if at_port else None
    return None


def start(home: Home | None = None) -> Server:
    """Start a control plane in the background, unless one runs, and wait until it answers."""
    home = home or Home.find()
    server = running(home)
    if server is not None:
        return server
    _make(home)
    output = home.path / "server.out"
    with _opened(output) as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tpuctl.server"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            cwd=home.path,  # not the user's folder, whose modules would go before those installed
            env={**os.environ, "TPUCTL_HOME": str(home.path)},
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        server = running(home)
        if server is not None:
            process.returncode = 0  # it lives on without us
            return server
        if process.poll() is not None and not _other_is_starting(process.returncode):
            raise FailedPrecondition(last_line(output) or f"the control plane did not start; see {output}")
        time.sleep(0.02)
    process.returncode = process.returncode or 0
    raise Unavailable(f"the control plane did not answer within {START_SECONDS:g} s; see {home.log}")


def stop(home: Home | None = None) -> bool:
    """End the control plane and wait until it has gone; False if none runs. Slices and jobs live on."""
    home = home or Home.find()
    server = running(home)
    if server is None:
        return False
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while home.server.exists():
        if time.monotonic() > deadline:
            raise Unavailable(f"the control plane (pid {server.pid}) does not end; see {home.log}")
        time.sleep(0.02)
    return True


def _make(home: Home) -> None:
    try:
        home.make()
    except FileExistsError as error:
        message = f"{home.path} is not a folder; set TPUCTL_HOME to a folder that you can write to"
        raise FailedPrecondition(message) from error
    except OSError as error:
        raise _unusable("make", home.path, error) from error


def _opened(output: Path) -> BinaryIO:
    try:
        return output.open("wb")
    except OSError as error:
        raise _unusable("write", output, error) from error


def _unusable(verb: str, path: Path, error: OSError) -> ApiError:
    """Why the home can't be used, and what to do."""
    if error.errno == errno.ENOSPC:
        return FailedPrecondition(f"cannot {verb} {path}: the disk is full; free some space and try again")
    reason = (error.strerror or str(error)).lower()
    return FailedPrecondition(f"cannot {verb} {path}: {reason}; set TPUCTL_HOME to a folder that you can write to")


def _answers(server: Server, home: Home) -> bool:
    """Whether ``server`` is there and is the one that wrote server.json, not another program on its port."""
    transport = Transport(server.url, token_of(home), server.certificate)
    try:
        answer = transport.call("GET", "/tpuctl/v1/ping")
        return isinstance(answer, dict) and answer.get("pid") == server.pid
    except Unauthenticated:
        raise
    except ApiError:
        return False
    finally:
        transport.close()


def token_of(home: Home) -> str:
    """The bearer token: TPUCTL_TOKEN, else the home's token file."""
    chosen = os.environ.get("TPUCTL_TOKEN")
    if chosen:
        if chosen.isascii() and chosen.isprintable():
            return chosen
        raise Unauthenticated("TPUCTL_TOKEN is not a token: it may hold only printable ASCII letters, on one line")
    try:
        return home.token.read_text().strip()
    except FileNotFoundError as error:
        raise Unauthenticated(f"{home.token} is missing; restart the control plane to make a new token") from error
    except PermissionError as error:
        raise Unauthenticated(f"{home.token} is not readable for you: this home belongs to another user") from error


def _other_is_starting(status: int) -> bool:
    """Two starts raced: the loser says so by this exit status, the winner will answer soon."""
    return status == 75
