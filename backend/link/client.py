"""How does a process talk to a slice runtime? The connection that drivers and monitors open."""

from __future__ import annotations

import itertools
import os
import select
import socket
import threading
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from backend.errors import Internal, Unavailable, error_from_code
from backend.link import arena
from backend.link.addresses import connect
from backend.link.framing import EndOfStream, MalformedFrame, frame, reply_reader
from backend.link.messages import VERSION, Failed, Fault, Hello, Message, Refused, Reply, Status, Telemetry, Welcome

_GREETING_SECONDS = 15.0


class Connection:
    """An open device link. Any thread may send; one at a time may receive."""

    def __init__(
        self,
        address: str,
        role: Literal["driver", "monitor"],
        job: str,
        token: str = "",
        timeout: float = _GREETING_SECONDS,
        **process: Any,
    ) -> None:
        """Connect and greet; ``process`` are further fields of Hello.

        Raises Unavailable if nobody answers, or the error with which the runtime refuses.
        """
        self.address = address
        self.arena: arena.Arena | None = None
        self._sending = threading.Lock()
        try:
            self._sock = connect(address, timeout)
        except OSError as error:
            raise Unavailable(f"no slice runtime answers at {address} ({error.strerror or error})") from error
        self._reader = reply_reader(self._sock)
        self._poll = select.poll()
        self._poll.register(self._sock, select.POLLIN)
        try:
            self.welcome = self._greet(Hello(VERSION, role, os.getpid(), job, token, **process), timeout)
        except BaseException:
            self.close()
            raise

    def _greet(self, hello: Hello, timeout: float) -> Welcome:
        if hello.role == "driver" and self._sock.family == socket.AF_UNIX:
            descriptor = arena.create()
            self.arena = arena.Arena(os.dup(descriptor))
            try:
                socket.send_fds(self._sock, [frame(hello)], [descriptor])
            finally:
                os.close(descriptor)
        else:
            self.send(hello)
        match self.first(timeout):
            case Welcome() as welcome:
                return welcome
            case Refused(code=code, message=message):
                raise error_from_code(code, message)
            case _:
                raise Internal(f"the slice runtime at {self.address} did not greet back")

    def first(self, timeout: float) -> Reply:
        """The next reply, for a client that has asked one question. Raises Unavailable if none arrives in time."""
        deadline = monotonic() + timeout
        while (left := deadline - monotonic()) > 0:
            if replies := self.receive(left):
                return replies[0]
        raise Unavailable(f"the slice runtime at {self.address} does not answer")

    def send(self, *messages: Message) -> None:
        """Send, waiting while the runtime's socket is full. Raises Unavailable if the runtime is gone."""
        data = b"".join(map(frame, messages))
        try:
            with self._sending:
                self._sock.sendall(data)
        except OSError as error:
            raise self._gone() from error

    def receive(self, timeout: float) -> list[Reply]:
        """What arrives within ``timeout`` seconds, perhaps nothing. Raises Unavailable if the runtime is gone."""
        try:
            if not self._poll.poll(timeout * 1000):
                return []
            return self._reader.read()
        except (EndOfStream, OSError) as error:
            raise self._gone() from error
        except MalformedFrame as error:
            raise Internal(f"the slice runtime at {self.address} sent a malformed frame: {error}") from error

    def close(self) -> None:
        self._sock.close()

    def shut(self) -> None:
        """End the conversation for both sides; a thread that waits in ``receive`` wakes."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _gone(self) -> Unavailable:
        return Unavailable(f"the slice runtime at {self.address} has ended")


_requests = itertools.count(1)


def status(directory: str | os.PathLike[str], timeout: float = 2.0, *, cores: bool = False) -> dict[str, Any]:
    """What the runtime that lives in ``directory`` is doing; each of its ``cores``, too, if they are asked for.

    Raises Unavailable if it does not answer in time.
    """
    return _ask(directory, Status(next(_requests), cores), timeout)


def fault(
    directory: str | os.PathLike[str],
    part: str,
    where: list[str],
    *,
    recover: bool = False,
    slice_index: int = 0,
    timeout: float = 5.0,
) -> dict[str, Any]:
    """Break a part of the slice whose runtime lives in ``directory``, or mend it; what it is doing then.

    ``part`` is "link", "chip" or "host". Raises InvalidArgument, and Unavailable if the runtime does not answer.
    """
    return _ask(directory, Fault(next(_requests), part, where, recover, slice_index), timeout)


def _ask(directory: str | os.PathLike[str], question: Status | Fault, timeout: float) -> dict[str, Any]:
    connection = Connection(f"unix://{Path(directory).absolute() / 'link.sock'}", "monitor", "", timeout=timeout)
    try:
        connection.send(question)
        match connection.first(timeout):
            case Telemetry(values=values):
                return values
            case Failed(code=code, message=message):
                raise error_from_code(code, message)
            case _:
                raise Internal(f"the slice runtime in {directory} gave no telemetry")
    finally:
        connection.close()
