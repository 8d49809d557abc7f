"""A real slice runtime, and scripts that run as a user's process on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("jax")

TOKEN = "the token"  # noqa: S105


@dataclass
class Runtime:
    """A slice runtime process."""

    process: subprocess.Popen[bytes]
    directory: Path

    def environment(self, *, tcp: bool = False) -> dict[str, str]:
        """What a process needs to use the slice."""
        told = json.loads((self.directory / "runtime.json").read_text())
        link = f"tcp://{told['host']}:{told['port']}" if tcp else f"unix://{told['socket']}"
        return {"TPUCTL_SLICE": link, "TPUCTL_SLICE_TOKEN": TOKEN if tcp else "", "TPUCTL_JOB": "test"}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(10) == 0


def start_runtime(directory: Path, *slice_: str) -> Runtime:
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "backend.runtime", "--directory", str(directory), "--name", "test"]
    process = subprocess.Popen(
        [*command, *(slice_ or ("--type", "v3-8")), "--port", "0"], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 10
    while not (directory / "runtime.json").exists():
        assert process.poll() is None, "the runtime ended"
        assert time.monotonic() < deadline, "the runtime does not come up"
        time.sleep(0.02)
    return Runtime(process, directory)


@pytest.fixture(scope="package")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """One slice for all tests that leave it as it is."""
    started = start_runtime(tmp_path_factory.mktemp("slice"))
    yield started
    started.stop()


@pytest.fixture
def own_runtime(tmp_path: Path) -> Iterator[Runtime]:
    """A slice that a test may kill."""
    started = start_runtime(tmp_path / "slice")
    yield started
    started.process.kill()
    started.process.wait()


@dataclass
class Script:
    """A user's process."""

    process: subprocess.Popen[str]

    def result(self, timeout: float = 60) -> tuple[int, str, str]:
        """Exit status, stdout, stderr."""
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Script]]:
    """Starts Python code in a process of its own."""
    started: list[Script] = []

    def start_script(code: str, **environment: str) -> Script:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TPUCTL_", "JAX_"))}
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=clean | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Script(process))
        return started[-1]

    yield start_script
    for script in started:
        if script.process.poll() is None:
            script.process.kill()
        script.process.communicate()


@pytest.fixture
def run(start: Callable[..., Script], runtime: Runtime) -> Callable[..., str]:
    """Runs code on the slice; its output. Fails if the code fails or says anything on stderr."""

    def run_script(code: str, *, tcp: bool = False) -> str:
        status, out, err = start(code, JAX_PLATFORMS="tpu,cpu", **runtime.environment(tcp=tcp)).result()
        assert (status, err) == (0, ""), err
        return out

    return run_script
