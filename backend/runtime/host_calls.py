"""How does a running program reach its script's callbacks? Over the client's connection, while the launch waits.

The launch thread speaks, the connection's thread hears what the client answers. A client that goes away ends the wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from backend.errors import TpuError, Unavailable, error_from_code
from backend.link.framing import MalformedFrame
from backend.link.messages import (
    HostAnswer,
    HostBarrier,
    HostError,
    HostReached,
    HostReceive,
    HostReply,
    HostSend,
    Message,
)

Array = np.ndarray[Any, np.dtype[Any]]
PART_BYTES = 4 << 20


def parts(data: Array) -> Iterator[bytes]:
    """A value's bytes in pieces that fit a message; one, if empty, for no bytes."""
    for start in range(0, max(1, len(data)), PART_BYTES):
        yield data[start : start + PART_BYTES].tobytes()


class _Answer:
    """An answer of ``size`` bytes that is awaited."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._begun = False
        self.data = bytearray()

    @property
    def complete(self) -> bool:
        return self._begun and len(self.data) == self._size

    def take(self, message: HostAnswer) -> None:
        """Add a part. Raises MalformedFrame."""
        self._begun = True
        self.data += message.data
        if message.size != self._size or len(self.data) > self._size:
            raise MalformedFrame(f"an answer of {message.size} bytes where {self._size} were asked for")


class HostCalls:
    """What one client's launches and its callbacks say to each other. One launch runs at a time."""

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._heard = threading.Condition()
        self._sequence = 0
        self._answers: dict[tuple[int, int], _Answer] = {}
        self._reached = False
        self._error: TpuError | None = None
        self._gone: TpuError | None = None

    def launch(self, sequence: int) -> LaunchCalls:
        """The side of the launch with that number, which begins."""
        with self._heard:
            self._sequence, self._error, self._reached = sequence, None, False
            self._answers.clear()
        return LaunchCalls(self, sequence)

    def say(self, message: Message) -> None:
        """Raises the error with which the launch has failed meanwhile."""
        if error := self._gone or self._error:
            raise error
        self._post(message)

    def ask(self, channel: int, core: int, size: int) -> None:
        """Ask for a callback's answer of ``size`` bytes. Raises as ``say`` does."""
        with self._heard:
            self._answers[channel, core] = _Answer(size)
        self.say(HostReceive(self._sequence, channel, core))

    def answer(self, channel: int, core: int) -> bytearray:
        """Wait for an answer that was asked for. Raises TpuError."""
        answer = self._answers[channel, core]
        self._wait(lambda: answer.complete)
        with self._heard:
            return self._answers.pop((channel, core)).data

    def reached(self) -> None:
        """Wait for the host to have done all it was asked to. Raises TpuError."""
        self._wait(lambda: self._reached)

    def hear(self, message: HostReply) -> None:
        """What the client says; of a launch that is over, nothing. Raises MalformedFrame."""
        with self._heard:
            if message.sequence != self._sequence:
                return
            match message:
                case HostAnswer(channel=channel, core=core):
                    if (channel, core) not in self._answers:
                        raise MalformedFrame(f"an answer on channel {channel} that nobody asked for")
                    self._answers[channel, core].take(message)
                case HostReached():
                    self._reached = True
                case HostError():
                    self._error = error_from_code(message.code, message.message)
            self._heard.notify_all()

    def hang_up(self, reason: str) -> None:
        """The client is gone; nobody answers any more."""
        with self._heard:
            self._gone = Unavailable(reason)
            self._heard.notify_all()

    def _wait(self, heard: Callable[[], bool]) -> None:
        with self._heard:
            self._heard.wait_for(lambda: heard() or self._error is not None or self._gone is not None)
            if error := self._gone or self._error:
                raise error


class LaunchCalls:
    """What a running program sees of its script: see backend.tensorcore.lowering.Host."""

    def __init__(self, calls: HostCalls, sequence: int) -> None:
        self._calls = calls
        self._sequence = sequence
        self._unsettled = False

    def send(self, channel: int, core: int, part: Array) -> None:
        data = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        for piece in parts(data):
            self._calls.say(HostSend(self._sequence, channel, core, len(data), piece))
        self._unsettled = True

    def receive(self, channel: int, parts: Sequence[tuple[int, Array]]) -> None:
        self.ask(channel, parts)
        self.take(channel, parts)

    def ask(self, channel: int, parts: Sequence[tuple[int, Array]]) -> None:
        for core, target in parts:
            self._calls.ask(channel, core, target.nbytes)

    def take(self, channel: int, parts: Sequence[tuple[int, Array]]) -> None:
        for core, target in parts:
            answer = self._calls.answer(channel, core)
            np.copyto(target, np.frombuffer(answer, target.dtype).reshape(target.shape))
        self._unsettled = self._unsettled and not parts

    def settle(self) -> None:
        """Wait until the host has done all it was asked to: only then is the launch over. Raises TpuError."""
        if self._unsettled:
            self._calls.say(HostBarrier(self._sequence))
            self._calls.reached()


class SharedCalls:
    """The same for a program of several clients: each core's callbacks are those of the client that owns it."""

    def __init__(self, clients: Sequence[tuple[LaunchCalls, Sequence[int]]]) -> None:
        """``clients`` with the positions of their cores in the program; each counts its own from 0."""
        self._clients = [calls for calls, _ in clients]
        self._owners = {place: (calls, core) for calls, places in clients for core, place in enumerate(places)}

    def send(self, channel: int, core: int, part: Array) -> None:
        calls, own = self._owners[core]
        calls.send(channel, own, part)

    def receive(self, channel: int, parts: Sequence[tuple[int, Array]]) -> None:
        shares: dict[LaunchCalls, list[tuple[int, Array]]] = {calls: [] for calls in self._clients}
        for core, target in parts:
            calls, own = self._owners[core]
            shares[calls].append((own, target))
        for calls, share in shares.items():
            calls.ask(channel, share)
        for calls, share in shares.items():
            calls.take(channel, share)

    def settle(self) -> None:
        """Wait until every host has done all it was asked to. Raises TpuError."""
        failure: TpuError | None = None
        for calls in self._clients:
            try:
                calls.settle()
            except TpuError as error:
                failure = failure or error
        if failure is not None:
            raise failure


def launch_calls(clients: Sequence[tuple[HostCalls, int, Sequence[int] | None]]) -> LaunchCalls | SharedCalls:
    """The callbacks of a launch that begins: of each client, with its sequence number and its places."""
    if len(clients) == 1:
        return clients[0][0].launch(clients[0][1])
    return SharedCalls([(calls.launch(sequence), places or ()) for calls, sequence, places in clients])
