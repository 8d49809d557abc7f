"""Slices whose jobs restart are moved together, where that makes room for whoever waits first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import JobState
from tpuctl.api.queued import QueuedResource, QueuedState

P, Z = "local", "us-central2-b"


def told(tmp_path: Path, *, defragment: bool, restart: str) -> Simulation:
    """Two cubes, each half full of a job's slice; then a slice of a whole cube is asked for."""
    pod = PodSpec(zone=Z, generation="v4", shape="4x4x8", name="pod")
    simulation = Simulation(tmp_path / "home", FleetFile(pods=[pod], grace_seconds=2.0, defragment=defragment))
    for name, seconds in (("short", 20), ("one", 300), ("two", 300)):
        more = {"restart": restart, "queue": True} if name != "short" else {}
        simulation.job(P, name, ["sleep", str(seconds)], acceleratorType="v4-64", zone=Z, **more)
        simulation.run(2)
    simulation.run(25)
    spec = {"nodeId": "whole", "node": {"acceleratorType": "v4-128", "runtimeVersion": "x"}}
    asked = QueuedResource.model_validate({"tpu": {"nodeSpec": spec}})
    simulation.plane.create_queued(P, Z, "q", asked)
    simulation.run(20)
    return simulation


def state(simulation: Simulation) -> QueuedState | None:
    found = simulation.plane.get_queued(P, Z, "q").state
    return found and found.state


def test_a_job_that_restarts_makes_room_and_goes_on_elsewhere(tmp_path: Path) -> None:
    simulation = told(tmp_path, defragment=True, restart="on-preemption")
    assert state(simulation) is QueuedState.ACTIVE
    notices = [event for event in simulation.events() if event[2] == "preemption notice" and "/nodes/" in event[1]]
    assert len(notices) == 1
    assert notices[0][3] == f"to be moved for projects/{P}/locations/{Z}/queuedResources/q"
    (pod,) = simulation.plane.list_pods()
    assert (pod.in_use, pod.free) == (128, 0)
    for _ in range(100):
        simulation.step(4.0)
    assert {job.name: job.state for job in simulation.plane.list_jobs(P)} == dict.fromkeys(
        ("short", "one", "two"), JobState.SUCCEEDED
    )
    simulation.plane.store.close()


@pytest.mark.parametrize(("defragment", "restart"), [(False, "on-preemption"), (True, "never")])
def test_nothing_moves_unless_the_fleet_and_the_job_allow_it(tmp_path: Path, defragment: bool, restart: str) -> None:
    simulation = told(tmp_path, defragment=defragment, restart=restart)
    assert state(simulation) is QueuedState.WAITING_FOR_RESOURCES
    assert not [event for event in simulation.events() if event[2] == "preemption notice"]
    simulation.plane.store.close()
