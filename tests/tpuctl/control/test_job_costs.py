"""A job costs what its slices have been metered for, in all its attempts, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.api_faults import ApiFault
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import Job, JobState
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.usage import UsageBy

P, Z = "local", "us-central2-b"
V4 = 3.22


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    fleet = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])
    made = Simulation(tmp_path / "home", fleet)
    yield made
    made.plane.store.close()


def run(simulation: Simulation, seconds: float) -> None:
    """Few steps, each of a second."""
    for _ in range(round(seconds)):
        simulation.step(1.0)


def own(simulation: Simulation, name: str, seconds: float, **more: object) -> None:
    simulation.job(P, name, ["sleep", f"{seconds}"], acceleratorType="v4-8", zone=Z, **more)


def hours(job: Job) -> float:
    assert job.chip_hours is not None
    return job.chip_hours


def test_all_attempts_count_once_those_of_own_slices(simulation: Simulation) -> None:
    own(simulation, "train", 30, restart="on-preemption")
    run(simulation, 10)
    simulation.plane.api_faults.add(ApiFault(kind="preempt", name="train", count=1))
    run(simulation, 60)
    job = simulation.plane.get_job(P, "train")
    assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 2)
    (used,) = simulation.plane.usage(P, UsageBy.JOB, 0.0).rows
    assert (job.chip_hours, job.cost) == (pytest.approx(used.chip_hours), pytest.approx(used.cost))
    assert hours(job) == pytest.approx(4 * 40 / 3600, rel=0.1)


def test_all_attempts_count_once_those_on_a_slice_of_the_users(simulation: Simulation) -> None:
    simulation.plane.create_node(P, Z, "mine", NodeSpec(accelerator_type="v4-8"))
    run(simulation, 20)
    simulation.job(P, "guest", ["fail", "10"], slice="mine", zone=Z, restart="on-failure", maxRestarts=1)
    run(simulation, 40)
    job = simulation.plane.get_job(P, "guest")
    assert (job.state, len(job.attempts)) == (JobState.FAILED, 2)
    assert hours(job) == pytest.approx(4 * 20 / 3600, rel=0.02)
    assert job.cost == pytest.approx(hours(job) * V4)
    assert simulation.plane.usage(P, UsageBy.JOB, 0.0).rows == []


def test_what_is_kept_costs_its_job_nothing_more(simulation: Simulation) -> None:
    own(simulation, "train", 10, keepSlice=True)
    run(simulation, 20)
    ended = hours(simulation.plane.get_job(P, "train"))
    run(simulation, 20)
    assert hours(simulation.plane.get_job(P, "train")) == ended == pytest.approx(4 * 11 / 3600, rel=0.2)


def test_what_has_no_price_or_has_not_begun_does_not_cost_nothing(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(simulation, "first", 10)
    own(simulation, "then", 10, after=["first"])
    run(simulation, 5)
    assert (simulation.plane.get_job(P, "then").chip_hours, simulation.plane.get_job(P, "then").cost) == (0, None)
    monkeypatch.setattr("tpuctl.control.usage.price_of", lambda *_: None)
    priceless = simulation.plane.get_job(P, "first")
    assert hours(priceless) > 0
    assert priceless.cost is None
    assert "cost" not in priceless.to_json()
