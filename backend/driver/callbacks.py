"""How are the script's callbacks called? PJRT's send and receive callbacks, in threads of their own.

A running launch asks over the link, and waits. A callback may call into Python for as long as it likes, while other
threads go on reading the link.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from backend.driver import handles
from backend.driver.errors import error_handle
from backend.driver.structs import STRUCTS, address_of
from backend.errors import FailedPrecondition, Internal, TpuError, Unavailable, error_from_code
from backend.link.messages import (
    HostAnswer,
    HostBarrier,
    HostCall,
    HostError,
    HostReached,
    HostReceive,
    HostSend,
    Message,
)

_log = logging.getLogger(__name__)
_PART_BYTES = 4 << 20
_PATIENCE_SECONDS = 0.02
_ALIGNMENT = 64

_SendCallback = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, ctypes.c_void_p
)
_ReceiveCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_CallbackError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)

_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype, _libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_FREE = address_of(_libc.free)
"""As a chunk's deleter it is called with one argument too many, which it does not look at."""


@dataclass(frozen=True)
class Callbacks:
    """A launch's callbacks by channel and core: C function and the argument that it wants back."""

    sends: dict[tuple[int, int], tuple[int, int]]
    receives: dict[tuple[int, int], tuple[int, int]]


def callbacks_of(options: Any, num_devices: int) -> Callbacks:
    """What PJRT_ExecuteOptions names."""
    return Callbacks(
        _table(options.send_callbacks, num_devices, options.num_send_ops, "PJRT_SendCallbackInfo"),
        _table(options.recv_callbacks, num_devices, options.num_recv_ops, "PJRT_RecvCallbackInfo"),
    )


def _table(lists: int, num_devices: int, count: int, kind: str) -> dict[tuple[int, int], tuple[int, int]]:
    if not count:
        return {}
    rows = (ctypes.c_size_t * num_devices).from_address(lists)
    infos = STRUCTS[kind] * count
    return {
        (info.channel_id, core): (info.callback, info.user_arg)
        for core, row in enumerate(rows)
        for info in infos.from_address(row)
    }


class Stream(handles.Droppable):
    """A PJRT_CopyToDeviceStream: takes one callback's answer in chunks."""

    def __init__(self, call: HostReceive, post: Callable[[Message], None]) -> None:
        self._call = call
        self._post = post
        self.answered = 0

    def add(self, data: bytes) -> None:
        call = self._call
        for start in range(0, max(1, len(data)), _PART_BYTES):
            part = data[start : start + _PART_BYTES]
            self._post(HostAnswer(call.sequence, call.channel, call.core, len(data), part))
        self.answered += len(data)


class CallbackThreads:
    """Calls the callbacks of a session's launches. ``post`` sends to the slice.

    One after the other, in the order in which the launch asks; but a callback may wait for those of other cores, as
    threads of the TPU's own runtime let it. So when one does not return in a moment, the other cores' no longer wait.
    """

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._changed = threading.Condition()
        self._launches: dict[int, Callbacks] = {}
        self._pending: deque[HostCall] = deque()
        self._running: dict[int | None, HostCall] = {}
        self._began = 0.0
        self._patience = _PATIENCE_SECONDS
        self._sends: dict[tuple[int, int, int], bytearray] = {}
        self._failed = 0
        self._closed = False
        self._threads: set[threading.Thread] = set()

    def expect(self, sequence: int, callbacks: Callbacks) -> None:
        """A launch with callbacks is about to begin."""
        with self._changed:
            self._launches[sequence] = callbacks
            self._have_one_idle()

    def take(self, call: HostCall) -> None:
        """What a launch asks."""
        with self._changed:
            self._pending.append(call)
            self._changed.notify_all()

    def forget(self, through: int) -> None:
        """All launches up to a sequence number are over."""
        if self._launches:
            with self._changed:
                for sequence in [number for number in self._launches if number <= through]:
                    del self._launches[sequence]

    def is_calling(self, sequence: int) -> bool:
        """Whether a callback of a launch has not returned yet."""
        return bool(self._running) and any(call.sequence == sequence for call in tuple(self._running.values()))

    def is_current(self) -> bool:
        """Whether the caller is a callback."""
        return bool(self._threads) and threading.current_thread() in self._threads

    def close(self, timeout: float) -> None:
        """End the threads, once the callbacks that run have returned; but wait no longer than ``timeout`` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = monotonic() + timeout
        for thread in tuple(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))

    def _have_one_idle(self) -> None:
        """With the lock held: there must be a thread that finds out when a callback takes its time."""
        if len(self._threads) <= len(self._running):
            thread = threading.Thread(target=self._run, name="tpuctl-callbacks", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                self._do(call)
            finally:
                with self._changed:
                    del self._running[_core(call)]
                    self._changed.notify_all()

    def _next(self) -> HostCall | None:
        """Wait for a call whose turn it is; it counts as running. None at the end."""
        with self._changed:
            while not self._closed:
                call = next((call for call in self._pending if _core(call) not in self._running), None)
                if call is None or (isinstance(call, HostBarrier) and self._running):
                    self._changed.wait()
                    continue
                left = self._began + self._patience - monotonic()
                if self._running and left > 0:
                    self._changed.wait(left)
                    continue
                if self._running:
                    self._patience = 0.0
                self._pending.remove(call)
                self._running[_core(call)] = call
                self._began = monotonic()
                self._have_one_idle()
                return call
            return None

    def _do(self, call: HostCall) -> None:
        callbacks = self._launches.get(call.sequence)
        if callbacks is None or call.sequence == self._failed:
            return
        try:
            match call:
                case HostSend():
                    self._send(call, callbacks)
                case HostReceive():
                    function, argument = _named(callbacks.receives, call)
                    _ReceiveCallback(function)(handles.new(Stream(call, self._post)), argument)
                case HostBarrier():
                    self._post(HostReached(call.sequence))
        except Unavailable:
            return  # the session tells everybody
        except TpuError as error:
            self._fail(call, error)
        except Exception as error:  # noqa: BLE001 the outermost boundary of the thread
            _log.exception("a host callback could not be called")
            self._fail(call, Internal(f"a host callback could not be called: {type(error).__name__}: {error}"))

    def _fail(self, call: HostCall, error: TpuError) -> None:
        with self._changed:
            self._failed = call.sequence
            self._sends.clear()
        with contextlib.suppress(Unavailable):  # then nobody waits for it any more
            self._post(HostError(call.sequence, error.code, error.message))

    def _send(self, call: HostSend, callbacks: Callbacks) -> None:
        function, argument = _named(callbacks.sends, call)
        data: bytes | bytearray = call.data
        if len(data) < call.size:
            key = (call.sequence, call.channel, call.core)
            data = self._sends.setdefault(key, bytearray())
            data += call.data
            if len(data) < call.size:
                return
            del self._sends[key]
        chunk = _chunk(data)
        error = _SendCallback(function)(
            ctypes.addressof(chunk), ctypes.addressof(_callback_error), call.size, True, argument
        )
        if error:
            raise _taken(error)


def _core(call: HostCall) -> int | None:
    return None if isinstance(call, HostBarrier) else call.core


def _named(table: dict[tuple[int, int], tuple[int, int]], call: HostSend | HostReceive) -> tuple[int, int]:
    try:
        return table[call.channel, call.core]
    except KeyError:
        raise FailedPrecondition(
            f"the program calls back on channel {call.channel}, for which this launch has no callback"
        ) from None


def _chunk(data: bytes | bytearray) -> Any:
    """A PJRT_Chunk with a copy of ``data``, which is C++'s to free."""
    size = max(1, -(-len(data) // _ALIGNMENT)) * _ALIGNMENT
    address = _libc.aligned_alloc(_ALIGNMENT, size)
    if not address:
        raise MemoryError
    ctypes.memmove(address, bytes(data), len(data))
    return STRUCTS["PJRT_Chunk"](address, len(data), _FREE, None)


def _new_error(code: int, message: int, size: int) -> int:
    """A PJRT_CallbackError: how C++ makes the error that a send callback returns."""
    return error_handle(error_from_code(code, ctypes.string_at(message, size).decode(errors="replace")))


_new_error_function = _CallbackError(_new_error)
_callback_error = ctypes.c_void_p(address_of(_new_error_function))


def _taken(handle: int) -> TpuError:
    """The error behind a handle that is ours now."""
    error = handles.resolve(handle)
    handles.discard(handle)
    return error_from_code(error.code, error.text.value.decode(errors="replace"))
