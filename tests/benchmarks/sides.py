"""The two sides of a benchmark: the same script on a slice, and on JAX's CPU backend."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from backend.host.environment import runtime_environment

HERE = Path(__file__).parent
SAMPLE_SECONDS = 0.1
GLANCE_SECONDS = 0.005
GROWTH_BYTES = 8 << 20
READY_SECONDS = 30.0


class Memory(threading.Thread):
    """Samples the memory of processes and all their children: each page once, however many of them share it.

    A sample is taken every ``SAMPLE_SECONDS``, and as soon as the processes have grown beyond what they ever had.
    """

    def __init__(self, roots: list[int]) -> None:
        super().__init__(daemon=True)
        self._roots, self._ended = roots, threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        processes: list[psutil.Process] = []
        largest, next_sample = 0, 0.0
        while not self._ended.wait(GLANCE_SECONDS):
            now, resident = time.monotonic(), sum(map(_resident_bytes, processes))
            if now < next_sample and resident < largest + GROWTH_BYTES:
                continue
            processes = [each for root in self._roots for each in _tree(root)]
            self.peak_bytes = max(self.peak_bytes, sum(map(_shared_bytes, processes)))
            largest, next_sample = max(largest, resident), now + SAMPLE_SECONDS

    def end(self) -> int:
        """Stop, and give the peak in bytes."""
        self._ended.set()
        self.join()
        return self.peak_bytes


def _tree(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _resident_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def _shared_bytes(process: psutil.Process) -> int:
    """The process's share of its pages."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return int(process.memory_full_info().pss)
    return 0


class Side:
    """A workload process that runs when told to. ``helpers`` are processes whose memory counts with the script's.

    Without ``wait``, one of several that get ready together: see ``get_ready``.
    """

    def __init__(
        self, workload: str, mode: str, environment: dict[str, str], helpers: list[int], *, wait: bool = True
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), workload, mode],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._memory = Memory([self._process.pid, *helpers])
        self._memory.start()
        if wait:
            self.get_ready()

    def get_ready(self) -> None:
        """Wait until it is compiled and warm."""
        self._read()
        ready: dict[str, Any] = json.loads(self._read())
        self.devices: str = ready["devices"]
        self.compile_seconds: float = ready["trace"] + ready["compile"]
        self.trace_seconds: float = ready["trace"]
        self.peak_bytes = self._memory.end()

    def run(self) -> float:
        """Seconds of one run."""
        self.start()
        return self.end()

    def start(self) -> None:
        """Begin a run."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> float:
        """Wait for the run; its seconds."""
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("a workload process ended; its error is above")
        return line


@contextlib.contextmanager
def on_cpu(workload: str, mode: str, cores: int) -> Iterator[Side]:
    """The workload on JAX's CPU backend, with as many forced host devices."""
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={cores}"}
    side = Side(workload, mode, environment, [])
    assert side.devices in {f"cpu {cores}", "numpy"}, side.devices
    try:
        yield side
    finally:
        side.close()


@contextlib.contextmanager
def on_slice(workload: str, mode: str, cores: int) -> Iterator[Side]:
    """The workload on a v3 slice of its own, which one process drives."""
    with running_slice(cores) as (environment, pid):
        side = Side(workload, mode, environment, [pid])
        assert side.devices == f"tpu {cores}", side.devices
        try:
            yield side
        finally:
            side.close()


@contextlib.contextmanager
def running_slice(cores: int) -> Iterator[tuple[dict[str, str], int]]:
    """A runtime of a v3 slice: the environment of its one process, and the runtime's pid."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        directory.chmod(0o700)
        (directory / "token").write_text(secrets.token_urlsafe(32))
        (directory / "token").chmod(0o600)
        options = ["--directory", folder, "--name", "benchmark", "--type", f"v3-{cores}", "--port", "0"]
        runtime = subprocess.Popen(
            [sys.executable, "-m", "backend.runtime", *options], env=runtime_environment(os.environ)
        )
        try:
            _wait_for(directory / "runtime.json", runtime)
            link = f"unix://{directory}/link.sock"
            yield {"TPUCTL_SLICE": link, "TPUCTL_JOB": "benchmark", "JAX_PLATFORMS": "tpu,cpu"}, runtime.pid
        finally:
            runtime.terminate()
            runtime.wait()


def _wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the slice runtime did not start")
        time.sleep(0.01)
