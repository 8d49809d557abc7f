"""A job on two hosts saves its sharded state with Orbax, and another goes on from it bit for bit."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.host import output
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest, JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control.plane import ControlPlane

pytest.importorskip("orbax.checkpoint")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).with_name("scripts") / "train_orbax.py"
WHERE = ("local", "us-central2-b")


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with real slices."""
    home = Home(tmp_path / "home")
    home.make()
    made = ControlPlane(home)
    made.start()
    yield made
    for node in made.list_nodes(*WHERE):
        made.act_on_node(*WHERE, node.name.rpartition("/")[2], "delete")
    wait_until(lambda: not made.list_nodes(*WHERE), 20)
    made.end()


@pytest.fixture
def train(plane: ControlPlane) -> Callable[..., dict[int, list[str]]]:
    """Runs the script on all hosts of slice "two"; what each worker printed, line by line."""

    def run(name: str, *arguments: object) -> dict[int, list[str]]:
        request = JobRequest(
            name=name,
            zone=WHERE[1],
            slice="two",
            command=[sys.executable, str(SCRIPT), *map(str, arguments)],
            working_directory="/",
            environment={key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ},
        )
        plane.create_job("local", request)
        wait_until(lambda: plane.get_job("local", name).state.ended, 110)
        job = plane.get_job("local", name)
        pieces = {number: list(output.read(place)) for number, place in plane.worker_places("local", name).items()}
        assert job.state is JobState.SUCCEEDED, [piece.text for lines in pieces.values() for piece in lines]
        return {
            number: [piece.text.strip() for piece in lines if piece.stream == "stdout"]
            for number, lines in pieces.items()
        }

    return run


def test_a_two_host_job_resumes_bit_for_bit(
    plane: ControlPlane, train: Callable[..., dict[int, list[str]]], tmp_path: Path
) -> None:
    plane.create_node(*WHERE, "two", NodeSpec(accelerator_type="v4-16"))
    wait_until(lambda: plane.get_node(*WHERE, "two").state is NodeState.READY, 20)
    through = train("through", tmp_path / "saved", 0, 5)
    assert list(through) == [0, 1]
    assert len(through[0]) == 6
    assert through[0][:5] == through[1][:5]  # the loss is the same everywhere
    assert (tmp_path / "saved" / "3").is_dir()
    resumed = train("resumed", tmp_path / "saved", 3, 5)
    for worker in (0, 1):
        assert resumed[worker] == through[worker][3:]
