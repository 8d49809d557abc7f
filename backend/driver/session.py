"""How does the driver follow what its slice does? Operations go out and are numbered; the slice says how far it is.

Whoever waits reads the socket itself. A collector thread reads only while callbacks are due and nobody waits.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from backend.driver import handles
from backend.driver.callbacks import Callbacks, CallbackThreads
from backend.driver.columns import NO_NUMBER, Column
from backend.errors import FailedPrecondition, TpuError, Unavailable, error_from_code
from backend.link.arena import REGION_BYTES, REGIONS
from backend.link.client import Connection
from backend.link.messages import (
    Answer,
    Assemble,
    Compile,
    Compiled,
    CoreMemory,
    Done,
    Execute,
    Failed,
    Failure,
    Fetch,
    Fetched,
    HostBarrier,
    HostReceive,
    HostSend,
    MemoryStats,
    Message,
    Notice,
    Put,
    Region,
    RegionFree,
    Release,
    Reply,
    Stage,
    Telemetry,
    Unload,
)

OPERATIONS_IN_FLIGHT = 64
INLINE_BYTES = 16 << 10
PIECE_BYTES = 4 << 20
_MUCH_BYTES = 64 << 10
_IDLE_SECONDS = 0.2
_LAZY_SECONDS = 0.02
_PATIENCE_SECONDS = 0.002
_SHARED_PATIENCE_SECONDS = 0.02
"""Where processes share a slice, a launch takes as long as the last of them needs to come to it."""
_GLANCE_SECONDS = 0.001
_FOREVER = 3600.0
_LEAVING_SECONDS = 5.0
_FAILURES_KEPT = 10_000


Continuation = Callable[[TpuError | None], None]


@dataclass(frozen=True)
class _Landing:
    """Where fetched bytes go on the host, and which region they come through."""

    address: int
    size: int
    region: Region | None
    finish: Callable[[], None] | None


class Session:
    """The process's hold on a slice. All methods may be called from any thread."""

    def __init__(self, connection: Connection, process: int = 0, processes: int = 1) -> None:
        """``process`` of a job's ``processes``, each of which owns some of the cores."""
        self.welcome = connection.welcome
        self.process = process
        self.processes = processes
        self._patience_seconds = _PATIENCE_SECONDS if processes == 1 else _SHARED_PATIENCE_SECONDS
        self.done = 0
        self._connection = connection
        self._broken: Unavailable | None = None
        self._closed = False
        self._next_number = NO_NUMBER + 1
        self._requests = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._landings: dict[int, _Landing] = {}
        self._failures: dict[int, Failure] = {}
        self._unsent: list[Message] = []
        self._released: deque[int] = deque()
        self._released_buffers: deque[int] = deque()
        self._in_flight: deque[Column] = deque()
        self._sent = 0
        self._sends_much = False
        self._order = threading.Lock()
        self._turn = threading.Condition()
        self._somebody_reads = False
        self._callbacks: list[tuple[int, int, Continuation]] = []
        self._callback_numbers = itertools.count()
        self._wake_collector = threading.Event()
        self._urgent_through = 0
        self._read_at = 0.0
        self._arena = connection.arena
        self._regions = [Region(index * REGION_BYTES, REGION_BYTES) for index in range(REGIONS)] if self._arena else []
        self._callback_threads = CallbackThreads(self._post)
        self._collector = threading.Thread(target=self._collect, name="tpuctl-collector", daemon=True)
        self._collector.start()
        os.register_at_fork(after_in_child=connection.close)

    # Operations

    def new_numbers(self, count: int = 1) -> int:
        """The first of ``count`` numbers that name nothing yet."""
        with self._order:
            first = self._next_number
            self._next_number += count
        return first

    def submit(self, make: Callable[[int], Message]) -> int:
        """Send the operation that ``make`` builds for its sequence number. Raises Unavailable."""
        if self._sent - self.done >= OPERATIONS_IN_FLIGHT:
            self.wait(self._sent - OPERATIONS_IN_FLIGHT + 1)
        with self._order:
            sequence = self._sent + 1
            self._send(make(sequence))
            self._sent = sequence
        return sequence

    def submit_soon(self, make: Callable[[int], Message]) -> int:
        """The same for one of many small operations: it is sent with the next message, or when somebody waits."""
        if self._sent - self.done >= OPERATIONS_IN_FLIGHT:
            self.wait(self._sent - OPERATIONS_IN_FLIGHT // 2)
        with self._order:
            if self._broken is not None:
                raise self._broken
            sequence = self._sent + 1
            self._unsent.append(make(sequence))
            self._sent = sequence
        return sequence

    def launch(self, make: Callable[[int], Message], callbacks: Callbacks | None) -> int:
        """The same for a program, with what it may call back while it runs. Raises Unavailable."""
        if callbacks is None:
            return self.submit(make)

        def expecting(sequence: int) -> Message:
            self._callback_threads.expect(sequence, callbacks)
            return make(sequence)

        sequence = self.submit(expecting)
        self._urgent_through = max(self._urgent_through, sequence)
        self._wake_collector.set()
        return sequence

    def upload(self, make: Callable[[int, bytes | Region], Put], buffer: int, address: int, size: int) -> int:
        """Copy ``size`` bytes at ``address`` to the slice as ``buffer``; ``make`` builds the Put. Raises Unavailable.

        The host's memory is free again when this returns.
        """
        position = 0
        while size - position > PIECE_BYTES:
            piece = self._package(address + position, PIECE_BYTES)
            with self._order:
                self._send(Stage(buffer, size, piece))
            position += PIECE_BYTES
        data = self._package(address + position, size - position)
        return self.submit(lambda sequence: make(sequence, data))

    def download(self, buffer: int, address: int, size: int, finish: Callable[[], None] | None = None) -> int:
        """Copy a buffer's ``size`` bytes to ``address``; ``finish`` runs when they are there. Raises Unavailable.

        Returns the sequence number at which that is so.
        """
        position = 0
        while True:
            piece = min(size - position, PIECE_BYTES)
            last = position + piece == size
            sequence = self._fetch(buffer, position, piece, address + position, finish if last else None)
            position += piece
            if last:
                return sequence

    def follow(self, column: Column) -> None:
        """Settle a column when its operation is over."""
        self._in_flight.append(column)

    def release(self, column: int) -> None:
        """The column is no longer used; the slice learns it with the next message."""
        self._released.append(column)

    def release_buffer(self, buffer: int) -> None:
        """The same for one buffer of a column."""
        self._released_buffers.append(buffer)

    def assemble(self, buffers: list[int], column: int) -> None:
        """Make buffers that are columns of their own one column. Raises Unavailable."""
        self._post(Assemble(buffers, column))

    def unload(self, executable: int) -> None:
        """Raises Unavailable."""
        with self._order:
            self._send(Unload(executable))

    def compile(self, executable: int, module: bytes, options: bytes, fingerprint: str) -> Compiled:
        """Compile and load a module; wait for it. Raises TpuError."""
        answer = self._ask(lambda request: Compile(request, executable, module, options, fingerprint))
        assert isinstance(answer, Compiled)  # noqa: S101
        return answer

    def memory_stats(self, core: int) -> CoreMemory:
        """The HBM of a core after all that was submitted before. Raises TpuError."""
        handles.sweep()
        answer = self._ask(lambda request: MemoryStats(request, core))
        assert isinstance(answer, CoreMemory)  # noqa: S101
        return answer

    def close(self) -> None:
        """Give the chips back.

        Our threads are waited for: one inside a C++ callback when the interpreter ends aborts the process.
        """
        self._closed = True
        self._connection.shut()
        self._wake_collector.set()
        self._callback_threads.close(_LEAVING_SECONDS)
        if threading.current_thread() is not self._collector:
            self._collector.join(_LEAVING_SECONDS)

    # Waiting

    def is_done(self, sequence: int) -> bool:
        """Whether the slice has executed the operation, or never will."""
        if self.done < sequence and monotonic() - self._read_at > _GLANCE_SECONDS:
            self._read_until(lambda: self.done >= sequence, 0.0)
        return self.done >= sequence or self._broken is not None

    def wait(self, sequence: int, timeout: float = _FOREVER) -> bool:
        """Wait for an operation; False if it is not done in time. Raises FailedPrecondition in a host callback."""
        if self.done < sequence and self._callback_threads.is_current():
            raise _waiting_in_a_circle()
        return self._read_until(lambda: self.done >= sequence, timeout)

    def drain(self, timeout: float) -> bool:
        """Wait for all operations; False if they are not done in time."""
        return self.wait(self._sent, timeout)

    def error(self, sequence: int) -> TpuError | None:
        """Why an operation failed, or None.

        Only the latest 10,000 failures are known. What older ones should have made still has its error on the slice,
        and says it to whoever reads it.
        """
        if self.done < sequence and self._broken is not None:
            return self._broken
        failure = self._failures.get(sequence)
        return None if failure is None else error_from_code(failure.code, failure.message)

    def is_calling_back(self) -> bool:
        """Whether the caller is a host callback, which must not wait for its own launch."""
        return self._callback_threads.is_current()

    def when_done(self, sequence: int, callback: Continuation) -> None:
        """Call back, with its error, some time after an operation is done: when somebody reads anyway."""
        heapq.heappush(self._callbacks, (sequence, next(self._callback_numbers), callback))
        if self.done >= sequence or self._broken is not None:
            self._call_back()

    def as_soon_as_done(self, sequence: int, callback: Continuation) -> None:
        """Call back, with its error, as soon as an operation is done: from this thread if that is a matter of moments.

        The thread that asks is about to wait; so it reads the link itself for a while before the collector does.
        """
        if self.done < sequence and self._callback_threads.is_current():
            callback(_waiting_in_a_circle())
            return
        heapq.heappush(self._callbacks, (sequence, next(self._callback_numbers), callback))
        if not self._read_until(lambda: self.done >= sequence, self._patience_seconds):
            self._urgent_through = max(self._urgent_through, sequence)
            self._wake_collector.set()
        self._call_back()

    # The other side of it

    def _send(self, message: Message) -> None:
        """With ``_order`` held: what was released before a message must be free when the slice comes to it."""
        if self._broken is not None:
            raise self._broken
        released = self._take_released()
        if released and isinstance(message, Execute) and not released[0].buffers:
            message.released, released = released[0].columns, []
        if _is_much(message):
            self._sends_much = True
            self._wake_collector.set()
        try:
            unsent, self._unsent = self._unsent, []
            self._connection.send(*unsent, *released, message)
        except Unavailable as error:
            self._break(error)
            raise
        finally:
            self._sends_much = False

    def _post(self, message: Message) -> None:
        """Send what answers a launch that runs. Raises Unavailable."""
        with self._order:
            self._send(message)

    def _take_released(self) -> list[Release]:
        """All that is released so far, with ``_order`` held; other threads may release more meanwhile."""
        columns = [self._released.popleft() for _ in range(len(self._released))]
        buffers = [self._released_buffers.popleft() for _ in range(len(self._released_buffers))]
        return [Release(columns, buffers)] if columns or buffers else []

    def _ask(self, make: Callable[[int], Message]) -> Answer:
        request = next(self._requests)
        with self._order:
            self._send(make(request))
        self._read_until(lambda: request in self._answers, _FOREVER)
        if request not in self._answers:
            raise self._broken or Unavailable("the slice runtime gave no answer")
        answer = self._answers.pop(request)
        if isinstance(answer, Failed):
            raise error_from_code(answer.code, answer.message)
        return answer

    def _package(self, address: int, size: int) -> bytes | Region:
        if self._arena is None or size <= INLINE_BYTES:
            return ctypes.string_at(address, size)
        region = self._take_region()
        ctypes.memmove(_address(self._arena.view(region)), address, size)
        return Region(region.offset, size)

    def _fetch(self, buffer: int, offset: int, size: int, address: int, finish: Callable[[], None] | None) -> int:
        region = self._take_region() if self._arena is not None and size > INLINE_BYTES else None

        def make(sequence: int) -> Fetch:
            self._landings[sequence] = _Landing(address, size, region, finish)
            return Fetch(sequence, buffer, offset, size, Region(region.offset, size) if region else None)

        return self.submit(make)

    def _take_region(self) -> Region:
        while True:
            try:
                return self._regions.pop()
            except IndexError:
                self._read_until(lambda: bool(self._regions), _FOREVER)
            if self._broken is not None:
                raise self._broken

    def _read_until(self, reached: Callable[[], bool], timeout: float) -> bool:
        """Read, or let another thread read, until ``reached``. False when time is up or the slice is gone."""
        if self._unsent:
            self._flush()
        deadline = monotonic() + timeout
        while not reached():
            if self._broken is not None:
                return False
            with self._turn:
                if self._somebody_reads:
                    left = deadline - monotonic()
                    if left <= 0:
                        return False
                    self._turn.wait(left)
                    continue
                self._somebody_reads = True
            try:
                left = max(0.0, deadline - monotonic())
                replies = self._read(left)
            finally:
                with self._turn:
                    self._somebody_reads = False
                    self._turn.notify_all()
            self._call_back()
            if not replies and not reached() and monotonic() >= deadline:
                return False
        return True

    def _read(self, timeout: float) -> bool:
        try:
            replies = self._connection.receive(timeout)
            self._read_at = monotonic()
        except TpuError as error:
            self._break(error if isinstance(error, Unavailable) else Unavailable(error.message))
            return False
        for reply in replies:
            self._take(reply)
        return bool(replies)

    def _take(self, reply: Reply) -> None:
        match reply:
            case Done(through=through, failures=failures):
                for failure in failures:
                    self._failures[failure.sequence] = failure
                    self._give_up_landing(failure.sequence)
                while len(self._failures) > _FAILURES_KEPT:
                    del self._failures[next(iter(self._failures))]
                self.done = through
                while self._in_flight and self._in_flight[0].sequence <= through:
                    column = self._in_flight.popleft()
                    column.settle(self.error(column.sequence) if self._failures else None)
                self._callback_threads.forget(through)
            case Fetched(sequence=sequence, data=data):
                self._land(self._landings.pop(sequence), data)
            case HostSend() | HostReceive() | HostBarrier():
                self._callback_threads.take(reply)
            case Notice(text=text):
                print(f"slice {self.welcome.name}: {text}", file=sys.stderr, flush=True)
            case RegionFree(offset=offset):
                self._regions.append(Region(offset, REGION_BYTES))
            case Compiled() | Failed() | CoreMemory() | Telemetry():
                self._answers[reply.request] = reply

    def _land(self, landing: _Landing, data: bytes) -> None:
        if landing.region is None:
            ctypes.memmove(landing.address, data, landing.size)
        elif self._arena is not None:
            ctypes.memmove(landing.address, _address(self._arena.view(landing.region)), landing.size)
            self._regions.append(landing.region)
        if landing.finish is not None:
            landing.finish()

    def _give_up_landing(self, sequence: int) -> None:
        landing = self._landings.pop(sequence, None)
        if landing is not None and landing.region is not None:
            self._regions.append(landing.region)

    def _call_back(self) -> None:
        """Call the callbacks that are due. Never with a lock held: they may call into Python."""
        while self._callbacks and (self._callbacks[0][0] <= self.done or self._broken is not None):
            try:
                if self._callback_threads.is_calling(self._callbacks[0][0]):
                    return  # C++ frees what belongs to a launch when it hears of its end
                sequence, _, callback = heapq.heappop(self._callbacks)
            except IndexError:
                return
            if sequence > self.done and self._broken is None:
                heapq.heappush(self._callbacks, (sequence, next(self._callback_numbers), callback))
                return
            callback(self.error(sequence))

    def _break(self, error: Unavailable) -> None:
        if self._broken is None:
            name = self.welcome.name
            self._broken = Unavailable(
                f'slice "{name}" has ended while this process was using it ({error.message}); '
                "see `tpuctl list slices` and start again on a slice that is READY"
            )
        self._wake_collector.set()

    def _collect(self) -> None:
        """The collector thread: read for callbacks that nobody reads for, and pass on what was destroyed.

        It also reads while much is sent, for the slice may take no more before it has got rid of its own data; and now
        and then where other processes share the slice, for what they should hear of each other.
        """
        while not self._closed and self._broken is None:
            self._wake_collector.wait(_LAZY_SECONDS if self._callbacks else _IDLE_SECONDS)
            self._wake_collector.clear()
            while self._sends_much and self._broken is None:
                self._read_until(lambda: not self._sends_much, _LAZY_SECONDS)
            while self.done < self._urgent_through and self._broken is None:
                self._read_until(lambda: self.done >= self._urgent_through, _IDLE_SECONDS)
            if self._callbacks or self.processes > 1:
                self._read_until(lambda: False, 0.0)
            handles.sweep()
            if self._unsent or self._released or self._released_buffers:
                self._flush()
        self._call_back()

    def _flush(self) -> None:
        """Send what waits to be sent."""
        if self._closed or self._broken is not None:
            return
        with self._order:
            unsent, self._unsent = self._unsent, []
            try:
                self._connection.send(*unsent, *self._take_released())
            except Unavailable as error:
                self._break(error)


def _waiting_in_a_circle() -> TpuError:
    return FailedPrecondition(
        "a host callback waits for this device, whose program waits for the callback; compute in callbacks with numpy, "
        "or on jax.devices('cpu'), and pass arrays of the device as arguments"
    )


def _is_much(message: Message) -> bool:
    """Whether a message may not fit the socket's buffer: data that does not go through the arena."""
    return isinstance(message, Stage | Put) and isinstance(message.data, bytes) and len(message.data) > _MUCH_BYTES


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
