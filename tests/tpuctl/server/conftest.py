"""Control planes as processes, and what they leave running cleaned up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from backend.host import process
from tpuctl.api.errors import ApiError
from tpuctl.api.home import Home
from tpuctl.client import Client

PLANE = Path(__file__).with_name("plane_process.py")


def wait_until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class PlaneProcess:
    """A control plane that can be killed and started again in the same home."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[Client] = []

    def start(self) -> Client:
        self.home.server.unlink(missing_ok=True)
        started = self._process = subprocess.Popen([sys.executable, PLANE, str(self.home.path)])
        wait_until(lambda: self.home.server.exists() or started.poll() is not None)
        return self.client()

    def client(self, token: str | None = None) -> Client:
        url = json.loads(self.home.server.read_text())["url"]
        made = Client(url, token or self.home.token.read_text().strip(), project="local")
        self._clients.append(made)
        return made

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(10)

    def living(self) -> list[Path]:
        """The directories of slices and jobs that have a process."""
        found = [*self.home.path.glob("slices/*"), *self.home.path.glob("jobs/*")]
        return [directory for directory in found if process.presence(directory) is process.Presence.ALIVE]

    def processes(self) -> list[psutil.Process]:
        """Every process that was started for this home, by its command line."""
        found = []
        for one in psutil.process_iter():
            try:
                if any(str(self.home.path) in word for word in one.cmdline()):
                    found.append(one)
            except psutil.Error:
                continue
        return found

    def clean_up(self) -> None:
        for made in self._clients:
            made.close()
        if self._process is not None and self._process.poll() is None:
            self.kill()
        for one in self.processes():
            os.kill(one.pid, signal.SIGKILL)


@pytest.fixture
def plane_process(tmp_path: Path) -> Iterator[PlaneProcess]:
    plane = PlaneProcess(Home(tmp_path / "home"))
    yield plane
    plane.clean_up()


def is_gone(client: Client, node: str) -> bool:
    try:
        client.get_node(node)
    except ApiError as error:
        return error.code == 5
    return False


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., None]:
    return wait_until
