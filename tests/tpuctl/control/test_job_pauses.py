"""What goes wrong again and again is tried again and again, but slower and slower."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.api_faults import ApiFault
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import JobState

P, Z = "local", "us-central2-b"
NAME = f"projects/{P}/jobs/train"


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    fleet = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])
    made = Simulation(tmp_path / "home", fleet)
    yield made
    made.plane.store.close()


def train(simulation: Simulation, seconds: float, **more: object) -> None:
    simulation.job(P, "train", ["sleep", f"{seconds}"], acceleratorType="v4-8", zone=Z, **more)


def run(simulation: Simulation, seconds: float) -> None:
    """Few steps, each of a second."""
    for _ in range(round(seconds)):
        simulation.step(1.0)


def times(simulation: Simulation, change: str) -> list[float]:
    return [time for time, resource, said, _ in simulation.events() if (resource, said) == (NAME, change)]


def gaps(simulation: Simulation, before: str, after: str) -> list[float]:
    pairs = zip(times(simulation, before), times(simulation, after), strict=False)
    return [second - first for first, second in pairs]


def test_a_slice_that_fails_though_it_has_room_is_made_anew_after_a_pause(simulation: Simulation) -> None:
    fault = simulation.plane.api_faults.add(ApiFault(kind="stockout-later", name="train"))
    train(simulation, 5, queue=True)
    run(simulation, 60)
    assert 3 <= len(times(simulation, "slice is being made")) <= 5
    waiting = simulation.plane.get_job(P, "train")
    assert waiting.waits_until is not None
    assert waiting.waits_until > datetime.fromtimestamp(simulation.clock.now, UTC)
    simulation.restart()
    simulation.plane.api_faults.clear(fault.id)
    run(simulation, 75)
    assert simulation.plane.get_job(P, "train").state is JobState.SUCCEEDED


def test_attempts_that_are_lost_early_follow_each_other_slower_and_slower(simulation: Simulation) -> None:
    simulation.plane.api_faults.add(ApiFault(kind="preempt", name="train", after=2.0))
    train(simulation, 500, restart="on-preemption")
    run(simulation, 60)
    found = gaps(simulation, "RUNNING -> QUEUED", "slice is being made")
    assert found == sorted(found)
    assert found[0] <= 3
    assert found[4] >= 16


def test_what_was_preempted_late_goes_on_at_once(simulation: Simulation) -> None:
    train(simulation, 500, restart="on-preemption")
    for _ in range(3):
        run(simulation, 4)
        simulation.step(80.0)
        simulation.plane.api_faults.add(ApiFault(kind="preempt", name="train", count=1))
        run(simulation, 6)
    found = gaps(simulation, "RUNNING -> QUEUED", "slice is being made")
    assert len(found) == 3
    assert max(found) <= 3
