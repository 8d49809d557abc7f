"""How does a partitioner process share memory with the one that uses it? It is a copy of it, made before any thread."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import traceback
from pathlib import Path

from backend.compiler import partitioner

_TITLE = b"tpuctl partitioner"
_STANDARD_ERROR = 2
_ARGUMENTS = slice(45, 47)
"""In /proc/self/stat, after the name: where the process's arguments begin and end in memory."""


class Fork:
    """A copy of this process that partitions programs. It is used as a Popen is; no two threads at a time."""

    def __init__(self) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        gc.freeze()  # a copy that collects no garbage writes to few pages, and the others are in memory once
        self.pid = os.fork()
        if self.pid == 0:
            _serve_and_exit(theirs_in, theirs_out)
        gc.unfreeze()
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin, self.stdout = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        self._status: int | None = None

    def poll(self) -> int | None:
        """The process's status if it has ended."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """The same, when it has ended."""
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


def _serve_and_exit(requests: int, replies: int) -> None:
    """The copy: never returns. It keeps nothing open of what the original has."""
    try:
        gc.disable()
        os.dup2(requests, 0)
        os.dup2(replies, 1)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > _STANDARD_ERROR:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(descriptor)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the original's business
        _be_called(_TITLE)
        with open(0, "rb") as stdin, open(1, "wb") as stdout:
            partitioner.serve(stdin, stdout)
    except BaseException:  # noqa: BLE001 the outermost boundary of the process
        traceback.print_exc()
    finally:
        os._exit(0)


def _be_called(title: bytes) -> None:
    """Show ``title`` in the place of the original's arguments, by which others look for it."""
    with contextlib.suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = map(int, fields[_ARGUMENTS])
        if start:
            ctypes.memmove(start, title.ljust(end - start, b"\0")[: end - start], end - start)
