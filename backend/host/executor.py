"""Starts, finds and ends slice runtimes and workers as processes of this machine.

They outlive whoever started them. All that is known of one is in its directory, so any executor can find it again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import psutil

from backend.files import last_line, read_json, write_json, write_text
from backend.host import process
from backend.host.directories import artifacts_directory
from backend.host.environment import runtime_environment
from backend.host.process import Presence, ProcessId
from backend.host.workers import HostedSlice

RUNTIME = (sys.executable, "-m", "backend.runtime")
WORKER = (sys.executable, "-m", "backend.host.worker")
SSH = (sys.executable, "-m", "backend.host.ssh")


class RuntimeState(Enum):
    """What there is of a slice's runtime process."""

    ABSENT = auto()
    STARTING = auto()
    READY = auto()
    ENDED = auto()


class WorkerState(Enum):
    """What there is of a worker process."""

    ABSENT = auto()
    RUNNING = auto()
    EXITED = auto()  # exit.json says how
    LOST = auto()  # it ended without exit.json


@dataclass(frozen=True)
class Exit:
    """How a worker's command ended: one of ``exit_code`` and ``signal``; times in seconds since the epoch."""

    exit_code: int | None
    signal: int | None
    start_time: float
    end_time: float


class LocalExecutor:
    """``runtime`` is the command that runs a slice's chips."""

    def __init__(self, runtime: Sequence[str] = RUNTIME) -> None:
        self._runtime = tuple(runtime)

    # Slice runtimes

    def start_slice(self, hosted: HostedSlice) -> None:
        """Start the slice's runtime unless it lives. Raises OSError."""
        directory = hosted.directory
        if process.presence(directory) is Presence.ALIVE:
            return
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in ("runtime.json", "runtime-error.json", "link.sock"):
            (directory / stale).unlink(missing_ok=True)
        write_text(directory / "token", secrets.token_urlsafe(32))
        options = {
            "--directory": str(directory),
            "--name": hosted.name,
            "--type": hosted.kind.name,
            "--topology": hosted.kind.topology,
            "--slices": str(hosted.num_slices),
            "--host": hosted.address.host,
            "--port": str(hosted.address.port),
        }
        arguments = [text for option in options.items() for text in option]
        process.launch(directory, [*self._runtime, *arguments], runtime_environment(os.environ))

    def slice_state(self, directory: Path) -> RuntimeState:
        presence = process.presence(directory)
        if presence is Presence.ALIVE:
            return RuntimeState.READY if (directory / "runtime.json").exists() else RuntimeState.STARTING
        return RuntimeState.ENDED if presence is Presence.ENDED else RuntimeState.ABSENT

    def slice_failure(self, directory: Path) -> str:
        """Why the slice's runtime ended, as far as it said so."""
        said = read_json(directory / "runtime-error.json")
        if said is not None and said.get("message"):
            return str(said["message"])
        return last_line(directory / "process.out") or "it was killed, or ended without a word"

    # Workers

    def start_worker(self, directory: Path) -> None:
        """Start the worker whose job.json is in ``directory``, unless it was started. Raises OSError."""
        if self.worker_state(directory) is not WorkerState.ABSENT:
            return
        artifacts_directory(directory).mkdir(mode=0o700, exist_ok=True)
        process.launch(directory, [*WORKER, "--directory", str(directory)], os.environ, {signal.SIGTERM})

    def give_notice(self, directory: Path, seconds: float) -> None:
        """Tell a worker's command that its slice is preempted in so many seconds: SIGTERM, and SIGKILL then."""
        write_json(directory / "notice.json", {"seconds": seconds})
        process.end(directory, signal.SIGTERM)

    def worker_state(self, directory: Path) -> WorkerState:
        presence = process.presence(directory)
        if (directory / "exit.json").exists():
            return WorkerState.EXITED
        if presence is Presence.ALIVE:
            return WorkerState.RUNNING
        begun = presence is Presence.ENDED or (directory / "worker.json").exists()
        return WorkerState.LOST if begun else WorkerState.ABSENT

    def worker_exit(self, directory: Path) -> Exit | None:
        said = read_json(directory / "exit.json")
        return None if said is None else Exit(said["exitCode"], said["signal"], said["startTime"], said["endTime"])

    def command_pid(self, directory: Path) -> int | None:
        said = read_json(directory / "command.json")
        return None if said is None else int(said["pid"])

    def end_leftovers(self, directory: Path) -> int:
        """Kill what a lost worker's command left running, found by its environment; returns how many."""
        found = list(process.processes_with_environment("TPUCTL_METRICS_FILE", str(directory / "metrics.jsonl")))
        for left in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        return len(found)

    # Logins

    def start_ssh(self, directory: Path) -> None:
        """Start the server that lets users log in to the slices that ``directory`` tells of. Raises OSError."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        process.launch(directory, [*SSH, "--directory", str(directory)], os.environ)

    def end_all_with(self, variable: str, value: str) -> None:
        """Kill all that has this in its environment."""
        for left in list(process.processes_with_environment(variable, value)):
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()

    # All

    def end(self, directory: Path, *, kill: bool = False) -> None:
        """Ask the directory's process to end (SIGTERM), or end it."""
        process.end(directory, signal.SIGKILL if kill else signal.SIGTERM)

    def is_alive(self, directory: Path) -> bool:
        return process.presence(directory) is Presence.ALIVE

    def identity(self, directory: Path) -> ProcessId | None:
        return process.identity(directory)

    def remove(self, directory: Path) -> None:
        """Remove the directory of a process that has ended. Raises OSError."""
        if directory.exists():
            shutil.rmtree(directory)
