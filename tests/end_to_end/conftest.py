"""A control plane with real slices, and a slice of two hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.host import output
from tpuctl.api.home import Home
from tpuctl.api.jobs import Job, JobRequest
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control.plane import ControlPlane

WHERE = ("local", "us-central2-b")


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class TwoHosts:
    """The slice "two", a v4-16, and jobs that run on both of its hosts."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        plane.create_node(*WHERE, "two", NodeSpec(accelerator_type="v4-16"))
        wait_until(lambda: plane.get_node(*WHERE, "two").state is NodeState.READY, 20)

    def start(self, name: str, *command: str) -> None:
        request = JobRequest(
            name=name,
            zone=WHERE[1],
            slice="two",
            command=list(command),
            working_directory="/",
            environment={key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
        )
        self.plane.create_job(WHERE[0], request)

    def printed(self, name: str, stream: str = "stdout") -> dict[int, list[str]]:
        """The lines that each worker has printed."""
        return {
            number: [piece.text.rstrip("\n") for piece in output.read(place) if piece.stream == stream]
            for number, place in self.plane.worker_places(WHERE[0], name).items()
        }

    def job(self, name: str) -> Job:
        return self.plane.get_job(WHERE[0], name)

    def wait(self, name: str, seconds: float = 110) -> Job:
        wait_until(lambda: self.job(name).state.ended, seconds)
        return self.job(name)


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    home = Home(tmp_path / "home")
    home.make()
    plane = ControlPlane(home)
    plane.start()
    yield TwoHosts(plane)
    for node in plane.list_nodes(*WHERE):
        plane.act_on_node(*WHERE, node.name.rpartition("/")[2], "delete")
    wait_until(lambda: not plane.list_nodes(*WHERE), 20)
    plane.end()
