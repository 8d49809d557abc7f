"""Jobs run on their slice, end as their command ends, and give back what was made for them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tpuctl.api.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.jobs import Job, JobRequest, JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control.jobs import invent_name
from tpuctl.control.plane import ControlPlane

P, Z = "local", "europe-west4-a"
Wait = Callable[..., None]


@pytest.fixture
def submit(plane: ControlPlane) -> Callable[..., Job]:
    def create(code: str, **options: Any) -> Job:
        where = {} if "slice" in options else {"accelerator_type": "v3-8"}
        environment = {"PATH": os.environ["PATH"], "SECRET": "s3cret"}
        command = [sys.executable, "-c", code]
        given = {"command": command, "working_directory": "/", "environment": environment, **where, **options}
        return plane.create_job(P, JobRequest.model_validate(given))

    return create


@pytest.fixture
def ready_slice(plane: ControlPlane, wait_until: Wait) -> str:
    plane.create_node(P, Z, "mine", NodeSpec(accelerator_type="v3-8"))
    wait_until(lambda: plane.get_node(P, Z, "mine").state is NodeState.READY)
    return "mine"


Submit = Callable[..., Job]
Ended = Callable[[Job], Job]


def test_a_job_can_ask_for_a_slice_by_its_shape(plane: ControlPlane, submit: Submit, ended: Ended) -> None:
    config = {"type": "V3", "topology": "2x2"}
    job = submit("pass", accelerator_type=None, accelerator_config=config, num_slices=2, processes=1)
    assert (job.accelerator_type, job.topology, job.num_slices) == ("v3-8", "2x2", 2)
    assert ended(job).state is JobState.SUCCEEDED
    with pytest.raises(InvalidArgument, match="either slice, an existing one, or acceleratorType or accel"):
        submit("pass", slice="mine", accelerator_config=config)


def test_a_job_makes_its_slice_runs_and_gives_it_back(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait
) -> None:
    job = submit("pass", name="train")
    assert (job.state, job.slice, job.ephemeral_slice) == (JobState.QUEUED, "train", True)
    done = ended(job)
    assert (done.state, done.exit_code, done.signal, done.error) == (JobState.SUCCEEDED, 0, None, None)
    assert done.host_seconds is not None
    assert 0 < done.host_seconds < 5
    wait_until(lambda: plane.list_nodes(P, Z) == [])


def test_a_slice_can_be_kept(plane: ControlPlane, submit: Submit, ended: Ended) -> None:
    ended(submit("pass", name="train", keep_slice=True))
    time.sleep(0.2)
    assert [node.state for node in plane.list_nodes(P, Z)] == [NodeState.READY]


def test_a_slice_of_ones_own_is_left_alone(plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str) -> None:
    ended(submit("pass", slice=ready_slice))
    time.sleep(0.2)
    assert [node.state for node in plane.list_nodes(P, Z)] == [NodeState.READY]


def test_the_exit_status_is_the_commands_own(submit: Submit, ended: Ended, ready_slice: str) -> None:
    failed = ended(submit("raise SystemExit(7)", slice=ready_slice))
    assert (failed.state, failed.exit_code) == (JobState.FAILED, 7)
    killed = ended(submit("import os; os.kill(os.getpid(), 9)", slice=ready_slice))
    assert (killed.state, killed.exit_code, killed.signal) == (JobState.FAILED, 137, 9)


def test_the_command_finds_its_slice_in_its_environment(
    plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str
) -> None:
    code = "import json, os; open(os.environ['TPUCTL_ARTIFACTS_DIR'] + '/env', 'w').write(json.dumps(dict(os.environ)))"
    done = ended(submit(code, name="train", slice=ready_slice))
    assert len(done.artifacts) == 1
    with open(done.artifacts[0]) as file:
        seen = json.load(file)
    assert seen["TPUCTL_SLICE"] == f"unix://{plane.get_slice(P, Z, ready_slice).socket}"
    assert seen["TPUCTL_JOB"] == "train"
    assert seen["SECRET"] == "s3cret"  # noqa: S105
    assert seen["TPU_ACCELERATOR_TYPE"] == "v3-8"
    assert "TPUCTL_HOME" not in seen


def test_metrics_are_seen_while_it_runs_and_kept(
    plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str, wait_until: Wait
) -> None:
    code = (
        "import json, os, time\n"
        "with open(os.environ['TPUCTL_METRICS_FILE'], 'a', buffering=1) as file:\n"
        "    for step in range(300):\n"
        "        print(json.dumps({'time': 1.0, 'step': step, 'loss': 1 / (step + 1)}), file=file)\n"
        "    print('{torn', file=file)\n"
        "    time.sleep(1)\n"
        "    print(json.dumps({'loss': float('nan')}), file=file)\n"
    )
    job = submit(code, slice=ready_slice)
    wait_until(lambda: plane.get_job(P, job.name).metrics.get("step") == 299)
    assert plane.get_job(P, job.name).state is JobState.RUNNING
    done = ended(job)
    assert done.metrics["step"] == 299
    assert str(done.metrics["loss"]) == "nan"
    assert len(done.metrics_tail) == 200


def test_a_busy_slice_is_refused_with_who_is_on_it(
    plane: ControlPlane, submit: Submit, ready_slice: str, wait_until: Wait
) -> None:
    first = submit("import time; time.sleep(60)", name="first", slice=ready_slice)
    wait_until(lambda: plane.get_job(P, "first").pid)
    pid = plane.get_job(P, "first").pid
    with pytest.raises(FailedPrecondition, match=rf"slice mine is busy: job first is running on it \(pid {pid}\)"):
        submit("pass", slice=ready_slice)
    plane.cancel_job(P, first.name)
    wait_until(lambda: plane.get_job(P, "first").state is JobState.CANCELLED)
    submit("pass", slice=ready_slice)


def test_a_cancelled_job_is_cancelled_and_its_slice_goes(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait
) -> None:
    job = submit("import time; time.sleep(60)")
    wait_until(lambda: plane.get_job(P, job.name).state is JobState.RUNNING)
    plane.cancel_job(P, job.name)
    done = ended(job)
    assert (done.state, done.signal) == (JobState.CANCELLED, signal.SIGTERM)
    wait_until(lambda: plane.list_nodes(P, Z) == [])
    with pytest.raises(FailedPrecondition, match="already ended"):
        plane.cancel_job(P, job.name)


def test_a_job_can_be_cancelled_before_it_runs(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "hang")
    job = submit("pass")
    plane.cancel_job(P, job.name)
    assert ended(job).state is JobState.CANCELLED
    wait_until(lambda: plane.list_nodes(P, Z) == [])


def test_a_job_whose_slice_cannot_start_fails_and_says_why(
    submit: Submit, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "fail")
    done = ended(submit("pass"))
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "no chips today" in done.error.message


def test_a_job_fails_when_its_slice_is_deleted(
    plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str, wait_until: Wait
) -> None:
    job = submit("import time; time.sleep(60)", slice=ready_slice)
    wait_until(lambda: plane.get_job(P, job.name).pid)
    plane.act_on_node(P, Z, ready_slice, "delete")
    done = ended(job)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "deleted or stopped while the job ran" in done.error.message
    wait_until(lambda: plane.list_nodes(P, Z) == [])


def test_a_job_whose_worker_is_killed_fails_and_leaves_nothing_running(
    plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str, wait_until: Wait
) -> None:
    job = submit("import subprocess; subprocess.run(['sleep', '61'])", slice=ready_slice)
    wait_until(lambda: plane.get_job(P, job.name).pid)
    time.sleep(0.2)
    (place,) = plane.worker_places(P, job.name).values()
    plane.executor.end(place, kill=True)
    done = ended(job)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert "worker was killed" in done.error.message
    assert plane.executor.end_leftovers(place) == 0


def test_an_ended_job_can_be_deleted_with_all_it_left(
    plane: ControlPlane, submit: Submit, ended: Ended, ready_slice: str
) -> None:
    job = ended(submit("pass", slice=ready_slice))
    plane.delete_job(P, job.name)
    assert not plane.home.job(job.uid).exists()
    with pytest.raises(NotFound):
        plane.get_job(P, job.name)


def test_a_running_job_cannot_be_deleted(plane: ControlPlane, submit: Submit, ready_slice: str) -> None:
    job = submit("import time; time.sleep(60)", slice=ready_slice)
    with pytest.raises(FailedPrecondition, match="tpuctl cancel job"):
        plane.delete_job(P, job.name)


def test_bad_requests_make_nothing(plane: ControlPlane, submit: Submit, ready_slice: str) -> None:
    with pytest.raises(InvalidArgument, match="either slice"):
        submit("pass", slice=ready_slice, accelerator_type="v3-8")
    with pytest.raises(InvalidArgument, match="numSlices is for a new slice"):
        submit("pass", slice=ready_slice, num_slices=2)
    with pytest.raises(InvalidArgument, match="0 is not a number from 1 to 64"):
        submit("pass", num_slices=0)
    with pytest.raises(NotFound, match="nodes/nowhere"):
        submit("pass", slice="nowhere")
    with pytest.raises(InvalidArgument, match="not an absolute path of a folder"):
        submit("pass", slice=ready_slice, working_directory="/no/such/folder")
    with pytest.raises(InvalidArgument, match="job name 'Bad Name'"):
        submit("pass", name="Bad Name")
    assert plane.list_jobs(P) == []
    assert not (plane.home.path / "jobs").exists()


def test_a_name_is_used_once(submit: Submit, ended: Ended, ready_slice: str) -> None:
    ended(submit("pass", name="train", slice=ready_slice))
    with pytest.raises(AlreadyExists, match="jobs/train"):
        submit("pass", name="train", slice=ready_slice)


def test_the_users_environment_is_kept_private(plane: ControlPlane, submit: Submit, ready_slice: str) -> None:
    job = submit("pass", slice=ready_slice)
    directory = plane.home.job(job.uid)
    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / "worker-0" / "job.json").stat().st_mode & 0o077 == 0
    assert b"s3cret" not in plane.home.database.read_bytes()


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["python", "my_train.py", "--flag"], "my-train-"),
        (["/usr/bin/env"], "env-"),
        (["./7zip"], "job-"),
        (["x" * 100], "x" * 40 + "-"),
    ],
)
def test_a_job_without_a_name_is_named_after_its_script(command: list[str], stem: str) -> None:
    name = invent_name(command)
    assert name.startswith(stem)
    assert len(name) == len(stem) + 5
