"""Slices whose pod is under maintenance: what they are told, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.host.metadata import MAINTENANCE
from tests.tpuctl.control.simulated import START, Simulation
from tpuctl.api.fleet import FleetFile, MaintenanceWindow, PodSpec
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import MaintenanceStatus, Node, NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource

P, Z = "local", "us-central2-b"
BEGIN = datetime.fromtimestamp(START, UTC) + timedelta(hours=2)
WINDOWS = [
    MaintenanceWindow(start=BEGIN + timedelta(hours=day), end=BEGIN + timedelta(hours=day + 1)) for day in (24, 0)
]
Make = Callable[[int], Simulation]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Control planes of so many pods of a cube; the first is under maintenance for an hour from BEGIN."""
    made: list[Simulation] = []

    def simulation(count: int) -> Simulation:
        pods = [
            PodSpec(name=f"pod{number}", zone=Z, generation="v4", shape="4x4x4", maintenance=[] if number else WINDOWS)
            for number in range(count)
        ]
        made.append(Simulation(tmp_path / "home", FleetFile(pods=pods, grace_seconds=10)))
        return made[0]

    yield simulation
    made[0].plane.store.close()


def create(simulation: Simulation, name: str, kind: str = "v4-128", **scheduling: Any) -> None:
    spec = {"acceleratorType": kind, "schedulingConfig": scheduling}
    simulation.plane.create_node(P, Z, name, NodeSpec.model_validate(spec))
    simulation.run(3)


def node(simulation: Simulation, name: str) -> Node:
    return simulation.plane.get_node(P, Z, name)


def pods_of(simulation: Simulation) -> dict[str, list[str]]:
    return {pod.name: [one.name for one in pod.slices] for pod in simulation.plane.list_pods()}


def go_to(simulation: Simulation, seconds: float) -> None:
    """So many seconds after BEGIN."""
    simulation.clock.now = BEGIN.timestamp() + seconds
    simulation.run(3)


def test_a_node_tells_of_the_next_window_an_hour_before(make: Make) -> None:
    simulation = make(1)
    create(simulation, "a")
    assert node(simulation, "a").upcoming_maintenance is None
    go_to(simulation, -3500)
    told = node(simulation, "a").upcoming_maintenance
    assert told is not None
    assert (told.window_start_time, told.maintenance_status) == (
        BEGIN.isoformat().replace("+00:00", "Z"),
        MaintenanceStatus.PENDING,
    )
    assert node(simulation, "a").state is NodeState.READY


def test_a_slice_moves_to_another_pod_and_stays_there(make: Make) -> None:
    simulation = make(2)
    create(simulation, "a")
    assert pods_of(simulation) == {"pod0": ["a"], "pod1": []}
    go_to(simulation, -20)
    go_to(simulation, 1)
    simulation.step_and_die(2)
    simulation.run(5)
    assert pods_of(simulation) == {"pod0": [], "pod1": ["a"]}
    assert node(simulation, "a").state is NodeState.READY
    assert node(simulation, "a").upcoming_maintenance is None
    go_to(simulation, 4000)
    assert pods_of(simulation) == {"pod0": [], "pod1": ["a"]}


def test_one_for_which_there_is_no_room_ends_and_one_on_spot_is_preempted(make: Make) -> None:
    simulation = make(1)
    create(simulation, "a", "v4-64")
    create(simulation, "spot", "v4-64", spot=True)
    go_to(simulation, -20)
    go_to(simulation, 1)
    assert node(simulation, "a").state is NodeState.TERMINATED
    assert node(simulation, "a").health_description == "ended for maintenance of pod pod0"
    assert node(simulation, "spot").state is NodeState.PREEMPTED
    assert pods_of(simulation) == {"pod0": []}
    go_to(simulation, 3700)
    simulation.plane.act_on_node(P, Z, "a", "delete")
    create(simulation, "b")
    assert node(simulation, "b").state is NodeState.READY


def test_a_job_is_told_before_and_goes_on_elsewhere(make: Make) -> None:
    simulation = make(2)
    simulation.job(P, "train", ["sleep", "20000"], acceleratorType="v4-128", zone=Z, restart="on-preemption")
    simulation.run(5)
    simulation.clock.now = BEGIN.timestamp() - 3000
    simulation.run(2)
    slices = simulation.plane.home.path / "slices"
    assert not list(slices.glob(f"*/{MAINTENANCE}"))
    simulation.clock.now = BEGIN.timestamp() - 9
    simulation.run(2)
    assert len(list(slices.glob(f"*/{MAINTENANCE}"))) == 1
    simulation.clock.now = BEGIN.timestamp() + 1
    simulation.run(20)
    job = simulation.plane.get_job(P, "train")
    assert (job.state, job.attempt) == (JobState.RUNNING, 2)
    assert [len(names) for names in pods_of(simulation).values()] == [0, 1]
    assert not list(slices.glob(f"*/{MAINTENANCE}"))


def test_a_queued_resource_s_nodes_tell_of_it_together(make: Make) -> None:
    simulation = make(1)
    several = {"node": {"acceleratorType": "v4-16", "runtimeVersion": "x"}, "multisliceParams": {"nodeCount": 2}}
    asked = QueuedResource.model_validate({"tpu": {"nodeSpec": several}})
    simulation.plane.create_queued(P, Z, "q", asked)
    simulation.run(4)
    go_to(simulation, -600)
    nodes = simulation.plane.queued_nodes(P, Z, "q")
    assert [one.upcoming_maintenance is not None for one in nodes] == [True, True]
