"""Jobs survive what befalls their slices: another attempt follows, and what each has left is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.host import output
from backend.host.executor import LocalExecutor
from tests.tpuctl.control.conftest import FAKE_RUNTIME
from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.api_faults import ApiFault
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.home import Home
from tpuctl.api.jobs import Job, JobArray, JobRequest, JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control.plane import ControlPlane

P, Z = "local", "us-central2-b"
Wait = Callable[..., None]
Submit = Callable[..., Job]
TRAIN = """
import os, pathlib, sys, time
state = pathlib.Path(os.environ["TPUCTL_CHECKPOINT_DIR"]) / "step"
start = int(state.read_text()) if state.exists() else 0
with open(os.environ["TPUCTL_METRICS_FILE"], "a") as metrics:
    for step in range(start + 1, 9):
        print(f'{{"time": {time.time()}, "step": {step}, "steps": 8, "loss": {1 / step}}}', file=metrics, flush=True)
        if step % 2 == 0:
            state.write_text(str(step))
        if step == 5 and start == 0:
            time.sleep(60)
print("attempt", os.environ["TPUCTL_ATTEMPT"], "from", start)
pathlib.Path(os.environ["TPUCTL_ARTIFACTS_DIR"], "model").write_text("m")
"""
"""Eight steps, a checkpoint every other one; the first time it does not get beyond the fifth by itself."""


class Planes:
    """Control planes of one home, one after the other."""

    def __init__(self, home: Path, fleet: FleetFile | None) -> None:
        self.home = home
        self.fleet = fleet
        self.now = self.start()

    def start(self) -> ControlPlane:
        self.now = ControlPlane(Home(self.home), LocalExecutor(FAKE_RUNTIME), fleet=self.fleet)
        self.now.start()
        return self.now

    def restart(self) -> ControlPlane:
        self.now.end()
        return self.start()


@pytest.fixture
def make(tmp_path: Path, wait_until: Wait) -> Iterator[Callable[..., Planes]]:
    made: list[Planes] = []

    def planes(fleet: FleetFile | None = None) -> Planes:
        made.append(Planes(tmp_path, fleet))
        return made[-1]

    yield planes
    made[-1].now.end()
    executor = made[-1].now.executor
    for directory in [
        *tmp_path.glob("slices/*"),
        *tmp_path.glob("jobs/*/worker-*"),
        *tmp_path.glob("jobs/*/*/worker-*"),
    ]:
        executor.end(directory, kill=True)
        wait_until(lambda directory=directory: not executor.is_alive(directory))


def submit(plane: ControlPlane, code: str, **options: Any) -> Job:
    where = {} if "slice" in options else {"accelerator_type": "v4-8"}
    given = {
        "command": [sys.executable, "-c", code],
        "working_directory": "/",
        "environment": {"PATH": os.environ["PATH"]},
        "zone": Z,
        **where,
        **options,
    }
    return plane.create_job(P, JobRequest.model_validate(given))


def fleet() -> FleetFile:
    """A pod that has room for one v4-128."""
    return FleetFile(pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4", name="pod")])


def printed(plane: ControlPlane, name: str, attempt: int | None = None) -> str:
    (place,) = plane.worker_places(P, name, attempt).values()
    return "".join(piece.text for piece in output.read(place) if piece.stream == "stdout")


def events(plane: ControlPlane, name: str) -> list[str]:
    with plane.store.read() as reader:
        return [event.change for event in reader.events(f"projects/{P}/jobs/{name}")]


def reached(plane: ControlPlane, name: str, step: int) -> bool:
    return plane.get_job(P, name).metrics.get("step", 0) >= step


def ended(plane: ControlPlane, wait: Wait, name: str) -> Job:
    wait(lambda: plane.get_job(P, name).state.ended, 20)
    return plane.get_job(P, name)


def test_a_preempted_job_goes_on_from_its_checkpoint_on_another_slice(
    make: Callable[..., Planes], wait_until: Wait, tmp_path: Path
) -> None:
    planes = make()
    plane = planes.now
    checkpoints = tmp_path / "checkpoints" / "train"
    submit(plane, TRAIN, name="train", restart="on-preemption", checkpoint_dir=str(checkpoints))
    wait_until(lambda: reached(plane, "train", 5))
    first = plane.get_node(P, Z, "train").id
    plane.api_faults.add(ApiFault(kind="preempt", name="train", count=1))
    wait_until(lambda: plane.get_job(P, "train").attempt == 2)
    plane = planes.restart()
    job = ended(plane, wait_until, "train")
    assert (job.state, job.exit_code, job.attempt) == (JobState.SUCCEEDED, 0, 2)
    assert [(one.number, one.ended) for one in job.attempts] == [(1, "preempted"), (2, "succeeded")]
    assert job.attempts[0].detail == "slice train was preempted"
    assert printed(plane, "train") == printed(plane, "train", 2) == "attempt 2 from 4\n"
    assert printed(plane, "train", 1) == ""
    with pytest.raises(NotFound, match="job train has no attempt 3: its last is 2"):
        plane.worker_places(P, "train", 3)
    assert [row["step"] for row in job.metrics_tail] == [*range(1, 9)]
    assert [len(one.metrics_tail) for one in job.attempts] == [5, 4]
    assert len(job.artifacts) == 1
    wait_until(lambda: not plane.list_nodes(P, "-"))
    assert first
    assert "slice is being made" in events(plane, "train")


@pytest.mark.slow
def test_a_job_on_a_slice_of_the_users_waits_until_it_is_there_again(
    make: Callable[..., Planes], wait_until: Wait, tmp_path: Path
) -> None:
    planes = make()
    plane = planes.now
    spec = NodeSpec(accelerator_type="v4-8")
    plane.create_node(P, Z, "mine", spec)
    options = {"slice": "mine", "restart": "on-preemption", "checkpoint_dir": str(tmp_path / "checkpoints")}
    submit(plane, TRAIN, name="train", **options)
    wait_until(lambda: reached(plane, "train", 5))
    plane.api_faults.add(ApiFault(kind="preempt", name="mine", count=1))
    wait_until(lambda: plane.get_job(P, "train").waits_for == "slice mine is PREEMPTED")
    plane = planes.restart()
    plane.act_on_node(P, Z, "mine", "delete")
    wait_until(lambda: "there is one again" in (plane.get_job(P, "train").waits_for or ""))
    plane.create_node(P, Z, "mine", spec)
    job = ended(plane, wait_until, "train")
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
    assert plane.get_node(P, Z, "mine").state is NodeState.READY


@pytest.mark.slow
def test_notice_is_given_by_sigterm_and_what_saves_and_leaves_goes_on(
    make: Callable[..., Planes], wait_until: Wait
) -> None:
    code = """
import os, signal, sys, time, urllib.request
def told(*_):
    address = f"http://{os.environ['GCE_METADATA_IP']}/computeMetadata/v1/instance/preempted"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    print("told", urllib.request.urlopen(request).read().decode(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
print("ready", flush=True)
if os.environ["TPUCTL_ATTEMPT"] == "1":
    time.sleep(60)
"""
    plane = make().now
    submit(plane, code, name="train", restart="on-preemption")
    wait_until(lambda: plane.get_job(P, "train").state is JobState.RUNNING and "ready" in printed(plane, "train"))
    plane.api_faults.add(ApiFault(kind="preempt", name="train", count=1, after=0.8))
    job = ended(plane, wait_until, "train")
    assert [one.ended for one in job.attempts] == ["preempted", "succeeded"]
    assert printed(plane, "train", 1) == "ready\ntold TRUE\n"
    assert "preemption notice" in events(plane, "train")


@pytest.mark.slow
def test_a_job_is_preempted_at_a_step(make: Callable[..., Planes], wait_until: Wait, tmp_path: Path) -> None:
    plane = make().now
    plane.api_faults.add(ApiFault(kind="preempt", name="train", at_step=5))
    submit(plane, TRAIN, name="train", restart="on-preemption", checkpoint_dir=str(tmp_path / "c"))
    job = ended(plane, wait_until, "train")
    assert [(one.ended, one.metrics["step"]) for one in job.attempts] == [("preempted", 5), ("succeeded", 8)]


@pytest.mark.slow
def test_what_fails_is_started_again_so_many_times(make: Callable[..., Planes], wait_until: Wait) -> None:
    plane = make().now
    submit(plane, "raise SystemExit(3)", name="bad", restart="on-failure", max_restarts=1)
    submit(plane, "raise SystemExit(3)", name="once", restart="on-preemption")
    job = ended(plane, wait_until, "bad")
    assert (job.state, job.exit_code, [one.exit_code for one in job.attempts]) == (JobState.FAILED, 3, [3, 3])
    assert ended(plane, wait_until, "once").attempts == []
    wait_until(lambda: not plane.list_nodes(P, "-"))


@pytest.mark.slow
def test_a_job_waits_for_room_and_others_wait_for_it(make: Callable[..., Planes], wait_until: Wait) -> None:
    planes = make(fleet())
    plane = planes.now
    plane.create_node(P, Z, "first", NodeSpec(accelerator_type="v4-128"))
    wait_until(lambda: plane.get_node(P, Z, "first").state is NodeState.READY)
    at_once = submit(plane, "pass", name="at-once", accelerator_type="v4-128")
    assert "no more capacity" in (ended(plane, wait_until, at_once.name).error or at_once).message  # type: ignore[union-attr]
    submit(plane, "pass", name="late", queue=True, accelerator_type="v4-128", processes=1)
    submit(plane, "pass", name="urgent", queue=True, accelerator_type="v4-128", processes=1, priority=5)
    submit(plane, "pass", name="then", queue=True, accelerator_type="v4-128", processes=1, after=["late"])
    wait_until(lambda: "needs 64 chips; all are in use" in (plane.get_job(P, "late").waits_for or ""))
    wait_until(lambda: plane.get_job(P, "urgent").waits_for is not None)
    assert plane.get_job(P, "then").waits_for == "it runs after late"
    plane = planes.restart()
    plane.act_on_node(P, Z, "first", "delete")
    done = [ended(plane, wait_until, name) for name in ("urgent", "late", "then")]
    assert [job.state for job in done] == [JobState.SUCCEEDED] * 3
    starts = [job.start_time for job in done]
    assert starts == sorted(starts, key=lambda start: start.timestamp() if start else 0)


def test_a_job_that_others_wait_to_come_after_is_not_deleted(tmp_path: Path) -> None:
    fleet = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])
    simulation = Simulation(tmp_path / "home", fleet)
    where = {"acceleratorType": "v4-8", "zone": Z}
    for name, seconds in (("short", "2"), ("long", "20")):
        simulation.job(P, name, ["sleep", seconds], **where)
    simulation.job(P, "report", ["sleep", "1"], after=["short", "long"], **where)
    simulation.run(6)
    assert simulation.plane.get_job(P, "short").state is JobState.SUCCEEDED
    with pytest.raises(FailedPrecondition, match=r"report is to run after it.*tpuctl cancel job report"):
        simulation.plane.delete_job(P, "short")
    simulation.run(20)
    simulation.plane.delete_job(P, "short")
    simulation.run(4)
    assert simulation.plane.get_job(P, "report").state is JobState.SUCCEEDED
    simulation.plane.store.close()


@pytest.mark.slow
def test_a_busy_slice_is_waited_for_in_turn(make: Callable[..., Planes], wait_until: Wait) -> None:
    planes = make()
    plane = planes.now
    plane.create_node(P, Z, "mine", NodeSpec(accelerator_type="v4-8"))
    submit(plane, "import time; time.sleep(0.6)", name="one", slice="mine")
    with pytest.raises(FailedPrecondition, match="slice mine is busy"):
        submit(plane, "pass", slice="mine")
    for name in ("two", "three"):
        job = submit(plane, "pass", name=name, slice="mine", queue=True)
        assert (job.state, job.waits_for) == (JobState.QUEUED, "slice mine is busy: job one has it")
    planes.restart()
    jobs = [ended(planes.now, wait_until, name) for name in ("one", "two", "three")]
    assert [job.state for job in jobs] == [JobState.SUCCEEDED] * 3
    assert jobs[0].end_time <= jobs[1].start_time <= jobs[1].end_time <= jobs[2].start_time  # type: ignore[operator]


def test_a_job_can_come_after_a_whole_array(tmp_path: Path) -> None:
    fleet = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])
    simulation = Simulation(tmp_path / "home", fleet)
    asked = {"acceleratorType": "v4-8", "zone": Z, "workingDirectory": str(tmp_path)}
    job = JobRequest.model_validate(asked | {"name": "sweep", "command": ["sleep", "5"]})
    simulation.plane.create_jobs(P, JobArray(job=job, indices=[0, 1, 2, 3]))
    simulation.job(
        P, "report", ["sleep", "1"], after=["sweep"], **{name: asked[name] for name in ("acceleratorType", "zone")}
    )
    assert simulation.plane.get_job(P, "report").waits_for == "it runs after sweep-0, sweep-1, sweep-2 and 1 more"
    simulation.run(4)
    assert simulation.plane.get_job(P, "report").state is JobState.QUEUED
    simulation.run(12)
    assert simulation.plane.get_job(P, "report").state is JobState.SUCCEEDED
    simulation.plane.store.close()


@pytest.mark.slow
def test_what_was_to_come_after_a_failure_fails(make: Callable[..., Planes], wait_until: Wait) -> None:
    plane = make().now
    submit(plane, "raise SystemExit(1)", name="bad")
    submit(plane, "pass", name="after", after=["bad"])
    job = ended(plane, wait_until, "after")
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error.message == "job bad, which it was to run after, FAILED"
    with pytest.raises(NotFound):
        submit(plane, "pass", after=["nobody"])


@pytest.mark.slow
def test_a_job_that_takes_too_long_is_ended(make: Callable[..., Planes], wait_until: Wait) -> None:
    plane = make().now
    submit(plane, "import time; time.sleep(60)", name="long", timeout=0.3, restart="always")
    job = ended(plane, wait_until, "long")
    assert (job.state, job.attempt) == (JobState.FAILED, 1)
    assert job.error is not None
    assert job.error.message == "timed out: it has run for 0.3 s"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_restarts": 2}, "maxRestarts: needs restart"),
        ({"checkpoint_dir": "here", "restart": "always"}, "checkpointDir: here is not an absolute path"),
        ({"checkpoint_dir": "/dev/null/x"}, "checkpointDir: /dev/null/x cannot be made"),
        ({"zones": [Z], "slice": "mine"}, "zones and spot are for a new slice"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[..., Planes], options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        submit(make().now, "pass", **options)
    assert text in str(raised.value.to_body())
