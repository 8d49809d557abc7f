"""Jobs run again and again: when they are due, once for all runs that were missed, and never two at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.tpuctl.control.simulated import START, Simulation
from tpuctl.api.errors import AlreadyExists, ApiError, InvalidArgument, NotFound
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import JobRequest, JobState
from tpuctl.api.schedules import Schedule, ScheduleRequest
from tpuctl.control import due_times

P, Z = "local", "us-central2-b"
HOUR = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> Simulation:
    fleet = FleetFile(pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4", name="pod")])
    return Simulation(tmp_path / "home", fleet)


def run(world: Simulation, seconds: float) -> None:
    """Few steps, each of two seconds."""
    for _ in range(round(seconds / 2)):
        world.step(2.0)


def schedule(
    world: Simulation,
    every: str,
    command: str = "sleep 5",
    name: str = "train",
    indices: list[int] | None = None,
    **more: object,
) -> None:
    job = {"command": command.split(), "workingDirectory": str(world.folder), "acceleratorType": "v4-8", "zone": Z}
    request = JobRequest.model_validate(job | {"environment": {"SECRET": "s"}} | more)
    world.plane.create_schedule(P, ScheduleRequest(name=name, every=every, job=request, indices=indices))


def only(world: Simulation) -> Schedule:
    (found,) = world.plane.list_schedules(P)
    return found


@pytest.mark.parametrize(
    ("every", "seconds"),
    [("hour", HOUR), ("day", 24 * HOUR), ("week", 168 * HOUR), ("90s", 90), ("2h", 2 * HOUR), ("5 4 * * *", None)],
)
def test_intervals_have_names_or_numbers(every: str, seconds: float | None) -> None:
    assert due_times.interval(every) == seconds


@pytest.mark.parametrize("every", ["", "soon", "0h", "-1h", "1y", "* * * *", "61 * * * *", "0 0 30 2 *", "* * * * * *"])
def test_what_is_never_due_is_refused(every: str) -> None:
    with pytest.raises(InvalidArgument):
        due_times.first(every, START)


def test_a_cron_expression_is_due_in_utc() -> None:
    at = datetime(2027, 1, 15, 8, 0, tzinfo=UTC).timestamp()
    assert datetime.fromtimestamp(due_times.first("30 4 * * 1", at), UTC) == datetime(2027, 1, 18, 4, 30, tzinfo=UTC)
    due = due_times.after("0 * * * *", at, at + 2.5 * HOUR)
    assert due == (2, at + 3 * HOUR)
    assert due_times.after("* * * * *", at, at + 1e8).missed == due_times.MOST_COUNTED


def test_an_interval_keeps_its_pace() -> None:
    assert due_times.after("1h", 100.0, 100.0) == (0, 100.0 + HOUR)
    assert due_times.after("1h", 100.0, 200.0 + 3 * HOUR) == (3, 100.0 + 4 * HOUR)


def test_a_job_runs_every_hour_and_missed_runs_are_made_up_once(world: Simulation) -> None:
    schedule(world, "1h")
    run(world, 20)
    (first,) = world.plane.list_jobs(P)
    assert (first.name, first.state) == ("train-20270115-080002", JobState.SUCCEEDED)
    world.clock.now += HOUR
    run(world, 20)
    assert len(world.plane.list_jobs(P)) == 2
    world.restart()
    world.clock.now += 3 * HOUR
    run(world, 20)
    assert (only(world).runs, only(world).missed, only(world).skipped) == (3, 2, 0)
    assert [job.state for job in world.plane.list_jobs(P)] == [JobState.SUCCEEDED] * 3
    assert only(world).next_time == datetime.fromtimestamp(START + 5 * HOUR, UTC)


def test_a_run_does_not_begin_before_the_last_has_ended(world: Simulation) -> None:
    schedule(world, "1m", "sleep 100")
    run(world, 90)
    assert (only(world).runs, only(world).skipped) == (1, 1)
    run(world, 40)
    assert (only(world).runs, only(world).skipped) == (2, 1)


def test_a_run_is_an_array_and_not_begun_before_all_of_the_last_have_ended(world: Simulation) -> None:
    schedule(world, "1m", indices=[0, 7, 2, 7])
    run(world, 20)
    first = world.plane.list_jobs(P)
    assert [job.name for job in first] == [f"train-20270115-080002-{number}" for number in (0, 2, 7)]
    assert {job.state for job in first} == {JobState.SUCCEEDED}
    world.restart()
    run(world, 50)
    assert (only(world).runs, only(world).last_job, len(world.plane.list_jobs(P))) == (2, "train-20270115-080100", 6)
    world.plane.delete_schedule(P, "train")
    schedule(world, "1m", "sleep 100", indices=[0, 1])
    run(world, 90)
    assert (only(world).runs, only(world).skipped, len(world.plane.list_jobs(P))) == (1, 1, 8)


def test_a_killed_control_plane_starts_all_of_an_array_or_none(world: Simulation) -> None:
    schedule(world, "1h", indices=[0, 1])
    for changes in range(8):
        world.step_and_die(changes % 4)
        assert len(world.plane.list_jobs(P)) in (0, 2)
    run(world, 20)
    assert [job.state for job in world.plane.list_jobs(P)] == [JobState.SUCCEEDED] * 2


@pytest.mark.parametrize("indices", [[], [-1], [10**9], [*range(1001)]])
def test_an_array_has_so_many_numbers_that_names_can_have(indices: list[int]) -> None:
    job = JobRequest(command=["sleep", "1"], working_directory="/", slice="mine")
    with pytest.raises(ValidationError):
        ScheduleRequest(name="train", every="day", job=job, indices=indices)


def test_what_cannot_be_started_is_told_and_tried_at_its_next_time(world: Simulation) -> None:
    schedule(world, "1m", accelerator_type=None, acceleratorType=None, slice="mine")
    world.run(5)
    assert "mine" in (only(world).error or "")
    assert only(world).runs == 0
    run(world, 60)
    assert world.plane.list_jobs(P) == []


def test_a_killed_control_plane_starts_each_run_once(world: Simulation) -> None:
    schedule(world, "1h")
    for changes in range(12):
        world.step_and_die(changes % 4)
    run(world, 20)
    assert [job.state for job in world.plane.list_jobs(P)] == [JobState.SUCCEEDED]
    assert only(world).runs == 1


def test_schedules_have_names_and_are_deleted(world: Simulation) -> None:
    schedule(world, "day")
    (directory,) = (world.folder / "schedules").iterdir()
    assert oct((directory / "environment.json").stat().st_mode & 0o777) == "0o600"
    with pytest.raises(AlreadyExists, match="there is a schedule train already"):
        schedule(world, "day")
    with pytest.raises(ApiError, match="was not found in zone europe-west4-a; it is offered in us-central2-b"):
        schedule(world, "day", name="elsewhere", zone="europe-west4-a")
    with pytest.raises(NotFound, match="`tpuctl list schedules` shows those there are"):
        world.plane.delete_schedule(P, "other")
    world.plane.delete_schedule(P, "train")
    assert world.plane.list_schedules(P) == []
    assert not directory.exists()
