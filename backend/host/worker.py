"""Run one process of a job on its TPU VM: `python -m backend.host.worker --directory JOBDIR/worker-N`.

Reads job.json, keeps the output in log.jsonl, writes exit.json when the command and its process group have gone.
The command ends with the worker, however the worker ends. SIGTERM cancels: SIGTERM to the group, SIGKILL 5 s later, or
as many as notice.json says, where the slice is about to be preempted.
The VM's metadata server runs in a thread of the worker.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from backend.files import read_json, write_json
from backend.host.directories import artifacts_directory
from backend.host.metadata import MetadataServer
from backend.host.output import LOG_FILE, Stream, append

GRACE_SECONDS = 5.0
DRAIN_SECONDS = 1.0
FLUSH_SECONDS = 0.1
EXIT_RETRY_SECONDS = 60.0
READ_BYTES = 1 << 16
SPARE_BYTES = 1 << 20
"""Disk space that output leaves free, so that what is more important can still be written."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
RESERVE = "exit.reserve"
NOTICE = "notice.json"


@dataclass
class Log:
    """log.jsonl, open for appending. Output that would fill the disk to the brim is dropped and counted."""

    descriptor: int
    dropped_bytes: int = 0

    @classmethod
    def open(cls, directory: Path) -> Log:
        return cls(os.open(directory / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def write(self, stream: Stream, text: str) -> None:
        disk = os.fstatvfs(self.descriptor)
        if disk.f_bavail * disk.f_frsize < SPARE_BYTES:
            self.dropped_bytes += len(text)
            return
        try:
            append(self.descriptor, stream, time.time(), text)
        except OSError:
            self.dropped_bytes += len(text)

    def note_loss(self) -> None:
        """Say at the log's end what is missing from it, if anything is."""
        if self.dropped_bytes:
            text = f"tpuctl: the disk was full: about {self.dropped_bytes} bytes of output were lost\n"
            with contextlib.suppress(OSError):
                append(self.descriptor, "stderr", time.time(), text)


@dataclass
class Pipe:
    """One output stream of the command, cut into lines; what has no line end yet is passed on after FLUSH_SECONDS."""

    stream: Stream
    file: IO[bytes]
    log: Log
    rest: str = ""
    flush_at: float | None = None
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def read(self) -> bool:
        """Take what is there; False at the stream's end."""
        data = os.read(self.file.fileno(), READ_BYTES)
        *lines, self.rest = (self.rest + self.decoder.decode(data, final=not data)).split("\n")
        for line in lines:
            self.log.write(self.stream, line + "\n")
        if not data or len(self.rest) > READ_BYTES:
            self.flush()
        self.flush_at = (self.flush_at or time.monotonic() + FLUSH_SECONDS) if self.rest else None
        return bool(data)

    def flush(self) -> None:
        if self.rest:
            self.log.write(self.stream, self.rest)
        self.rest, self.flush_at = "", None


@dataclass
class Command:
    """The user's process, leader of its own group. ``end_time`` is when it was seen to have ended."""

    process: subprocess.Popen[bytes]
    kill_at: float | None = None
    end_time: float | None = None

    def signal_group(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signum)

    def end(self, grace: float, now: float) -> None:
        """Ask the group to end within ``grace`` seconds; who has been asked before has no more time than then."""
        if self.kill_at is None:
            self.signal_group(signal.SIGTERM)
        self.kill_at = now + grace if self.kill_at is None else min(self.kill_at, now + grace)

    def has_ended(self) -> bool:
        """Whether it has ended. It is left unreaped, so that its group's id stays its own."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def main() -> None:
    parser = argparse.ArgumentParser(prog="backend.host.worker")
    parser.add_argument("--directory", type=Path, required=True)
    sys.exit(work(parser.parse_args().directory))


def work(directory: Path) -> int:
    """Run the job of ``directory`` to its end; returns the worker's own exit status."""
    job = read_json(directory / "job.json")
    if job is None:
        print(f"{directory / 'job.json'} is missing or not JSON", file=sys.stderr)
        return 1
    (directory / RESERVE).write_bytes(bytes(4096))
    started = time.time()
    write_json(directory / "worker.json", {"pid": os.getpid(), "startTime": started})
    log = Log.open(directory)
    ended = _run(job, log, directory)
    log.note_loss()
    _write_exit(directory, {**ended._asdict(), "startTime": started})
    return 0


class Ended(NamedTuple):
    """How a command ended, with one of ``exitCode`` and ``signal``, and when. Named as in exit.json."""

    exitCode: int | None  # noqa: N815
    signal: int | None
    endTime: float  # noqa: N815


def _run(job: dict[str, Any], log: Log, directory: Path) -> Ended:
    """Run the job's command to its end; one that cannot start ends as in a shell."""
    command: list[str] = job["command"]
    environment = _environment(job["environment"], directory)
    metadata = _metadata_server(job.get("metadata"), log)
    if metadata is not None:
        environment["GCE_METADATA_IP"] = metadata.endpoint
    wakeup, waker = socket.socketpair()
    with wakeup, waker:
        cancelled = _listen(waker)
        try:
            process = _start(command, job["workingDirectory"], environment)
        except OSError as error:
            reason = "no such file or directory" if isinstance(error, FileNotFoundError) else error.strerror
            log.write("stderr", f"tpuctl: cannot run {error.filename or command[0]}: {reason}\n")
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return Ended(status, None, time.time())
        write_json(directory / "command.json", {"pid": process.pid})
        if metadata is not None:
            metadata.start()
        running = Command(process)
        status = _supervise(running, log, wakeup, cancelled, directory)
    code, signum = (status, None) if status >= 0 else (None, -status)
    return Ended(code, signum, running.end_time or time.time())


def _metadata_server(wanted: dict[str, Any] | None, log: Log) -> MetadataServer | None:
    """The VM's metadata server, as job.json wants it."""
    if wanted is None:
        return None
    try:
        return MetadataServer(wanted["host"], wanted["values"], Path(wanted["slice"]) if "slice" in wanted else None)
    except OSError as error:
        log.write("stderr", f"tpuctl: no metadata server on {wanted['host']}: {error.strerror}\n")
        return None


def _start(command: list[str], folder: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=_die_with_worker(os.getpid()),  # noqa: PLW1509 - the worker has one thread yet
    )


def _grace(directory: Path) -> float:
    """Seconds that the command has to end: those until its slice is preempted, if it has been told of that just now.

    NOTICE is taken away as it is read: SIGTERM again, without another notice, cancels.
    """
    said = read_json(directory / NOTICE)
    (directory / NOTICE).unlink(missing_ok=True)
    return GRACE_SECONDS if said is None else float(said["seconds"])


def _supervise(command: Command, log: Log, wakeup: socket.socket, cancelled: list[int], directory: Path) -> int:
    """Store output, pass on cancellation, and see the whole group gone; returns Popen's status of the command."""
    pipes = [Pipe(name, file, log) for name, file in _streams(command.process)]
    drain_until: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        for pipe in pipes:
            selector.register(pipe.file, selectors.EVENT_READ, pipe)
        while True:
            for key, _ in selector.select(_pause(pipes, command.kill_at, drain_until)):
                if key.data is None:
                    wakeup.recv(READ_BYTES)
                elif not key.data.read():
                    selector.unregister(key.fileobj)
                    pipes.remove(key.data)
            now = time.monotonic()
            for pipe in pipes:
                if pipe.flush_at is not None and pipe.flush_at <= now:
                    pipe.flush()
            while cancelled:
                command.end(_grace(directory), now)
                cancelled.pop()
            if command.kill_at is not None and command.kill_at <= now:
                command.signal_group(signal.SIGKILL)
                command.kill_at = now + GRACE_SECONDS
            if drain_until is None and command.has_ended():
                command.end_time = time.time()
                command.signal_group(signal.SIGTERM)
                drain_until = now + DRAIN_SECONDS
            if drain_until is not None and (not pipes or drain_until <= now):
                break
    for pipe in pipes:
        pipe.flush()
    command.signal_group(signal.SIGKILL)
    return command.process.wait()


def _streams(process: subprocess.Popen[bytes]) -> list[tuple[Stream, IO[bytes]]]:
    named: list[tuple[Stream, IO[bytes] | None]] = [("stdout", process.stdout), ("stderr", process.stderr)]
    return [(name, file) for name, file in named if file is not None]


def _pause(pipes: list[Pipe], *deadlines: float | None) -> float | None:
    """Seconds until the next deadline; None to wait for an event."""
    times = [when for when in (*deadlines, *(pipe.flush_at for pipe in pipes)) if when is not None]
    return max(0.0, min(times) - time.monotonic()) if times else None


def _listen(waker: socket.socket) -> list[int]:
    """A list that SIGTERM and SIGINT add to; they and a child's end wake ``waker``'s other side."""
    received: list[int] = []
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda number, _: received.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return received


def _die_with_worker(worker: int) -> Callable[[], None] | None:
    """What the child does before exec: ask the kernel for SIGKILL when the worker dies (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    set_parent_death_signal = 1

    def prepare() -> None:
        prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != worker:
            os.kill(os.getpid(), signal.SIGKILL)

    return prepare


def _environment(given: dict[str, str], directory: Path) -> dict[str, str]:
    return given | {
        "PYTHONUNBUFFERED": "1",
        "TPUCTL_METRICS_FILE": str(directory / "metrics.jsonl"),
        "TPUCTL_ARTIFACTS_DIR": str(artifacts_directory(directory)),
    }


def _write_exit(directory: Path, status: dict[str, float | int | None]) -> None:
    """Write exit.json, in the space kept for it; on a full disk try on for a minute."""
    deadline = time.monotonic() + EXIT_RETRY_SECONDS
    (directory / RESERVE).unlink(missing_ok=True)
    while True:
        try:
            return write_json(directory / "exit.json", status)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    main()
