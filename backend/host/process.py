"""A detached process that belongs to a directory, and how it is found again after its parent's death.

The process inherits a locked file (``process.lock``), so the kernel says whether it lives: there is no moment, not even
between fork and the first write, at which a started process could be missed or a reused pid be taken for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import psutil

from backend.files import read_json, try_lock, write_json


class Presence(Enum):
    """What there is of a directory's process."""

    ABSENT = auto()
    ALIVE = auto()
    ENDED = auto()


@dataclass(frozen=True)
class ProcessId:
    """A process for certain: its pid and its start time as psutil gives it."""

    pid: int
    started: float


_children: list[subprocess.Popen[bytes]] = []


def launch(
    directory: Path, command: Sequence[str], environment: Mapping[str, str], blocked: Collection[signal.Signals] = ()
) -> None:
    """Start ``command`` in its own session, with its output in ``process.out``. Raises OSError.

    Does nothing if the directory's process lives already. It starts with the ``blocked`` signals blocked: those that
    come before it listens wait for it.
    """
    lock = os.open(directory / "process.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not try_lock(lock):
            return
        (directory / "process.json").unlink(missing_ok=True)
        with (directory / "process.out").open("wb") as output, _blocking(blocked):
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(lock,),
            )
        _children.append(child)
        with contextlib.suppress(psutil.NoSuchProcess):
            write_json(
                directory / "process.json", {"pid": child.pid, "started": psutil.Process(child.pid).create_time()}
            )
    finally:
        os.close(lock)


def presence(directory: Path) -> Presence:
    """Whether the directory's process was started and lives. Also lets ended children go."""
    _children[:] = [child for child in _children if child.poll() is None]
    try:
        lock = os.open(directory / "process.lock", os.O_RDWR)
    except FileNotFoundError:
        return Presence.ABSENT
    try:
        if not try_lock(lock, shared=True):
            return Presence.ALIVE
        return Presence.ENDED if (directory / "process.json").exists() else Presence.ABSENT
    finally:
        os.close(lock)


def end(directory: Path, signum: int = signal.SIGTERM) -> None:
    """Signal the directory's process, if it lives."""
    if presence(directory) is not Presence.ALIVE:
        return
    for process in _processes(directory):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signum)


def forget(directory: Path) -> None:
    """Let an ended process count as never started, so that it can be started anew."""
    (directory / "process.json").unlink(missing_ok=True)


def identity(directory: Path) -> ProcessId | None:
    """Which process the directory's is; None if it does not live."""
    if presence(directory) is not Presence.ALIVE:
        return None
    found = next(iter(_processes(directory)), None)
    return None if found is None else ProcessId(found.pid, found.create_time())


def processes_with_environment(name: str, value: str) -> Iterator[psutil.Process]:
    """Every process of this user whose environment at its start had ``name=value``."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(name) == value:
                yield process


def _processes(directory: Path) -> Iterable[psutil.Process]:
    """The directory's process by what was written at its start, else by its command line."""
    noted = read_json(directory / "process.json")
    if noted is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(noted["pid"])
            if process.create_time() == noted["started"]:
                return [process]
    return list(_by_command_line(directory))


def _by_command_line(directory: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if str(directory) in command and "--directory" in command:
                yield process


@contextlib.contextmanager
def _blocking(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Blocks ``signals`` in this thread; a process that it starts inherits that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
