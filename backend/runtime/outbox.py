"""How do replies leave? Each at once, but reports of finished operations may wait for the next ones."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from backend.errors import TpuError
from backend.link.framing import frame
from backend.link.messages import Done, Failure, Message

_PATIENCE_SECONDS = 0.0005


class Outbox:
    """The sending side of one connection, for any thread. A client that is gone is its reader's affair."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._through = 0
        self._unsent_since: float | None = None
        self._failures: list[Failure] = []

    def send(self, message: Message) -> None:
        data = frame(message)
        with self._lock, contextlib.suppress(OSError):
            self._sock.sendall(data)

    def done(self, sequence: int, error: TpuError | None) -> None:
        """Report a finished operation, now or with the next ones; ``flush`` must follow."""
        now = time.perf_counter()
        with self._lock:
            self._through = sequence
            if error is not None:
                self._failures.append(Failure(sequence, error.code, error.message))
            if self._unsent_since is None:
                self._unsent_since = now
            overdue = now - self._unsent_since > _PATIENCE_SECONDS
        if overdue:
            self.flush()

    def flush(self) -> None:
        """Send the reports that wait."""
        with self._lock:
            if self._unsent_since is None:
                return
            report = Done(self._through, self._failures)
            self._failures, self._unsent_since = [], None
            with contextlib.suppress(OSError):
                self._sock.sendall(frame(report))
