"""A control plane with real slices: one of two hosts, and two that are joined."""

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

PROJECT = "local"


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class TwoHosts:
    """The slice "two" and jobs that run on both of its hosts."""

    def __init__(self, plane: ControlPlane, kind: str, zone: str, num_slices: int = 1) -> None:
        self.plane = plane
        self.zone = zone
        plane.create_node(PROJECT, zone, "two", NodeSpec(accelerator_type=kind), num_slices)
        wait_until(lambda: plane.get_node(PROJECT, zone, "two").state is NodeState.READY, 20)

    def start(self, name: str, *command: str) -> None:
        request = JobRequest(
            name=name,
            zone=self.zone,
            slice="two",
            command=list(command),
            working_directory="/",
            environment={key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
        )
        self.plane.create_job(PROJECT, request)

    def printed(self, name: str, stream: str = "stdout") -> dict[int, list[str]]:
        """The lines that each worker has printed."""
        return {
            number: [piece.text.rstrip("\n") for piece in output.read(place) if piece.stream == stream]
            for number, place in self.plane.worker_places(PROJECT, name).items()
        }

    def job(self, name: str) -> Job:
        return self.plane.get_job(PROJECT, name)

    def wait(self, name: str, seconds: float = 110) -> Job:
        wait_until(lambda: self.job(name).state.ended, seconds)
        return self.job(name)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    home = Home(tmp_path / "home")
    home.make()
    plane = ControlPlane(home)
    plane.start()
    yield plane
    for node in plane.list_nodes(PROJECT, "-"):
        _, _, _, zone, _, name = node.name.split("/")
        plane.act_on_node(PROJECT, zone, name, "delete")
    wait_until(lambda: not plane.list_nodes(PROJECT, "-"), 20)
    plane.end()


@pytest.fixture
def two_hosts(plane: ControlPlane) -> TwoHosts:
    """A v4-16."""
    return TwoHosts(plane, "v4-16", "us-central2-b")


@pytest.fixture
def two_slices(plane: ControlPlane) -> TwoHosts:
    """2 x v3-8: a host each, joined over the data-centre network."""
    return TwoHosts(plane, "v3-8", "europe-west4-a", num_slices=2)
