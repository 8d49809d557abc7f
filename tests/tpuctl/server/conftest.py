"""Control planes as processes, and what they leave running cleaned up."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.context
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from plane_process import run
from serving import client_of, make_plane

from backend.host import process
from tpuctl.api.errors import ApiError
from tpuctl.api.home import Home
from tpuctl.client import Client
from tpuctl.control.plane import ControlPlane

ZONE = "/v2/projects/local/locations/europe-west4-a"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["__main__", "tpuctl.server.serve"])  # so that a start costs no imports


def wait_until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class PlaneProcess:
    """A control plane that can be killed and started again in the same home."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._process: multiprocessing.context.ForkServerProcess | None = None
        self._clients: list[Client] = []

    def start(self) -> Client:
        self.home.server.unlink(missing_ok=True)
        started = self._process = FORKS.Process(target=run, args=(self.home.path,))
        started.start()
        wait_until(lambda: self.home.server.exists() or not started.is_alive())
        return self.client()

    def client(self, token: str | None = None) -> Client:
        url = json.loads(self.home.server.read_text())["url"]
        made = Client(url, token or self.home.token.read_text().strip(), project="local")
        self._clients.append(made)
        return made

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.join()

    def terminate(self) -> int | None:
        assert self._process is not None
        self._process.terminate()
        self._process.join(10)
        return self._process.exitcode

    def living(self) -> list[Path]:
        """The directories of slices and jobs that have a process."""
        found = [*self.home.path.glob("slices/*"), *self.home.path.glob("jobs/*/worker-*")]
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
        if self._process is not None and self._process.is_alive():
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


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return make_plane(tmp_path)


@pytest.fixture
def http(plane: ControlPlane) -> Iterator[httpx.Client]:
    yield from client_of(plane)


@pytest.fixture
def make(http: httpx.Client, wait_until: Callable[..., None]) -> Callable[[str], Any]:
    def create(name: str) -> Any:
        operation = http.post(f"{ZONE}/nodes?nodeId={name}", json={"acceleratorType": "v3-8"}).json()
        wait_until(lambda: http.get("/v2/" + operation["name"]).json()["done"])
        return http.get("/v2/" + operation["name"]).json()

    return create
