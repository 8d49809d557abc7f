"""Where is a slice's device link? ``unix:///abs/DIR/link.sock`` or ``tcp://127.84.0.1:8470``."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from backend.errors import InvalidArgument

_SUN_PATH_BYTES = 107
_TCP_PLACE = re.compile(r"\[?([\w.:-]+?)\]?:(\d{1,5})")


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """``path`` in at most the 107 bytes that a Unix socket address holds, by way of its folder's descriptor."""
    if len(os.fsencode(path)) <= _SUN_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(address: str, timeout_seconds: float) -> socket.socket:
    """A connected, blocking stream socket. Raises InvalidArgument for a bad address, OSError if nobody answers."""
    scheme, _, place = address.partition("://")
    if scheme == "unix" and place.startswith("/"):
        sock = _connect_unix(Path(place), timeout_seconds)
    elif scheme == "tcp" and (host_port := _TCP_PLACE.fullmatch(place)):
        sock = socket.create_connection((host_port[1], int(host_port[2])), timeout_seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        raise InvalidArgument(f'"{address}" is not a device link; it reads unix:///DIR/link.sock or tcp://HOST:PORT')
    sock.settimeout(None)
    return sock


def _connect_unix(path: Path, timeout_seconds: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout_seconds)
    try:
        with short_path(path) as short:
            sock.connect(short)
    except OSError:
        sock.close()
        raise
    return sock


def listen_unix(path: Path) -> socket.socket:
    """Listen on a socket only its owner can use. A socket that was left behind is replaced."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX)
    with short_path(path) as short:
        sock.bind(short)
    path.chmod(0o600)
    sock.listen()
    return sock


def listen_tcp(host: str, port: int) -> socket.socket:
    """Listen on ``host``. Raises OSError if the port is taken."""
    sock = socket.socket(socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.listen()
    return sock
