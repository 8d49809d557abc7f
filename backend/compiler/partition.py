"""How is a program cut into per-core programs? Asked of a partitioner process, which is kept ready."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

from backend.compiler.partitioner import DONE, REPLY, REQUEST
from backend.compiler.partitioner_fork import Fork
from backend.errors import Internal


class Partitioner:
    """A partitioner process, started when first needed and again if it was killed. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | Fork | None = None

    def fork(self) -> None:
        """Start the process as a copy of this one, which must have no other thread yet."""
        with self._lock:
            self._process = self._process or Fork()

    def start(self) -> None:
        """Start the process, without waiting for it, so that the first program finds it ready."""
        with self._lock:
            self._running()

    def partition(self, module: bytes, options: bytes, num_partitions: int) -> tuple[bytes, bytes]:
        """The per-core program (HloModuleProto) of a global module (MLIR bytecode, CompileOptionsProto).

        The second result is what inspection.read_report reads.

        Raises Internal with XLA's own error.
        """
        with self._lock:
            process = self._running()
            if process.stdin is None or process.stdout is None:
                raise Internal("the partitioner process has no pipes")
            try:
                process.stdin.write(REQUEST.pack(num_partitions, len(module), len(options)) + module + options)
                process.stdin.flush()
                header = process.stdout.read(REPLY.size)
            except BrokenPipeError:
                header = b""
            if len(header) < REPLY.size:
                self._forget()
                raise Internal("the partitioner process ended while it worked; run the program again")
            status, length, inspections_length = REPLY.unpack(header)
            payload, inspections = process.stdout.read(length), process.stdout.read(inspections_length)
        if status != DONE:
            raise Internal(
                f"XLA could not partition this program for {num_partitions} cores: {payload.decode(errors='replace')}"
            )
        return payload, inspections

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._forget()

    def _running(self) -> subprocess.Popen[bytes] | Fork:
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "backend.compiler.partitioner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def _forget(self) -> None:
        """Let the process go: without its input it ends."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()
        self._process = None


PARTITIONER = Partitioner()
