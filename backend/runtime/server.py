"""How do clients reach the slice? Listening sockets, a thread for each connection."""

from __future__ import annotations

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend.link.addresses import listen_tcp, listen_unix
from backend.runtime.connection import Connection
from backend.runtime.slice import Slice

_log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1


class Server:
    """A slice that accepts clients on a Unix socket and on TCP."""

    def __init__(self, chips: Slice, socket_path: Path, host: str, port: int, token: str) -> None:
        """Listen, but accept nobody yet. Raises OSError if the TCP port is taken."""
        self._slice = chips
        self._token = token
        self._compiler = ThreadPoolExecutor(1, "compile")
        self._tcp = listen_tcp(host, port)
        self._unix = listen_unix(socket_path)
        self.port: int = self._tcp.getsockname()[1]

    def start(self) -> None:
        """Accept clients, each in a thread of its own."""
        self._slice.launch_queue.start()
        for listener, token in ((self._unix, None), (self._tcp, self._token)):
            threading.Thread(target=self._accept, args=(listener, token), name="accept", daemon=True).start()

    def close(self) -> None:
        """Accept nobody any more."""
        for listener in (self._unix, self._tcp):
            listener.close()

    def _accept(self, listener: socket.socket, token: str | None) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError as error:
                if listener.fileno() < 0:
                    return
                _log.warning("cannot accept a client: %s", error.strerror)
                time.sleep(_PAUSE_SECONDS)
                continue
            if sock.family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, self._slice, token, self._compiler)
            try:
                threading.Thread(target=connection.serve, name="connection", daemon=True).start()
            except RuntimeError as error:
                _log.warning("cannot serve a client: %s", error)
                sock.close()
