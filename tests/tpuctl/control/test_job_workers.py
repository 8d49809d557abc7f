"""A job of several processes runs, fails and ends as one."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpuctl.api.errors import FailedPrecondition, InvalidArgument
from tpuctl.api.jobs import Job, JobRequest, JobState, WorkerPhase
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.control.plane import ControlPlane

P, Z = "local", "europe-west4-a"
Wait = Callable[..., None]
SLEEP = "import time; time.sleep(60)"
WHO = "import os; who = int(os.environ.get('TPUCTL_PROCESS', '0/1').split('/')[0])\n"


@pytest.fixture
def pair(plane: ControlPlane, wait_until: Wait) -> str:
    """A slice of two hosts."""
    plane.create_node(P, Z, "pair", NodeSpec(accelerator_type="v3-8"), num_slices=2)
    wait_until(lambda: plane.get_node(P, Z, "pair").state is NodeState.READY)
    return "pair"


@pytest.fixture
def submit(plane: ControlPlane, pair: str) -> Callable[..., Job]:
    def create(code: str, **options: Any) -> Job:
        given = {
            "name": "train",
            "slice": pair,
            "command": [sys.executable, "-c", WHO + code],
            "working_directory": "/",
            "environment": {"PATH": os.environ["PATH"]},
        }
        return plane.create_job(P, JobRequest.model_validate(given | options))

    return create


Submit = Callable[..., Job]
Ended = Callable[[Job], Job]
Gone = Callable[[Job], bool]


@pytest.fixture
def nothing_is_left(plane: ControlPlane, wait_until: Wait) -> Callable[[Job], bool]:
    """Whether the workers, which write down how their commands ended right before they end themselves, have gone."""

    def check(job: Job) -> bool:
        places = [Path(job.directory) / f"worker-{number}" for number in (0, 1)]
        wait_until(lambda: not any(map(plane.executor.is_alive, places)), 2.0)
        return not any(map(plane.executor.end_leftovers, places))

    return check


def both_run(plane: ControlPlane) -> bool:
    return all(worker.pid for worker in plane.get_job(P, "train").workers)


def test_every_host_runs_the_command_as_itself(plane: ControlPlane, submit: Submit, ended: Ended) -> None:
    job = submit(
        "import json; open(f'{os.environ[\"TPUCTL_ARTIFACTS_DIR\"]}/{who}', 'w').write(json.dumps(dict(os.environ)))"
    )
    assert (job.hosts, job.processes, [worker.index for worker in job.workers]) == (2, 2, [0, 1])
    done = ended(job)
    assert (done.state, done.exit_code) == (JobState.SUCCEEDED, 0)
    assert [worker.state for worker in done.workers] == [WorkerPhase.SUCCEEDED] * 2
    seen = [json.loads(Path(path).read_text()) for path in done.artifacts]
    assert [one["TPUCTL_PROCESS"] for one in seen] == ["0/2", "1/2"]
    assert [one["MEGASCALE_SLICE_ID"] for one in seen] == ["0", "1"]
    assert {one["TPUCTL_JOB"] for one in seen} == {"train"}
    hosts = [worker.ip_address for worker in done.workers]
    assert [one["TPU_WORKER_HOSTNAMES"] for one in seen] == hosts
    assert [one["GCE_METADATA_IP"].split(":")[0] for one in seen] == hosts
    endpoints = plane.get_node(P, Z, "pair").network_endpoints or []
    assert [endpoint.ip_address for endpoint in endpoints] == hosts


def test_a_worker_that_fails_ends_the_job_with_its_status(
    plane: ControlPlane, submit: Submit, ended: Ended, nothing_is_left: Gone
) -> None:
    job = submit("import sys, time\nif who: sys.exit(3)\ntime.sleep(60)")
    done = ended(job)
    assert (done.state, done.exit_code, done.failed_worker) == (JobState.FAILED, 3, 1)
    assert done.error is not None
    assert done.error.message == "worker 1 failed first: exit status 3"
    assert [(worker.state, worker.exit_code) for worker in done.workers] == [("FAILED", 143), ("FAILED", 3)]
    assert nothing_is_left(job)


@pytest.mark.slow
def test_a_worker_that_does_not_listen_is_killed_with_the_rest(
    plane: ControlPlane, submit: Submit, ended: Ended, nothing_is_left: Gone
) -> None:
    code = (
        "import signal, sys, time\n"
        "if who: time.sleep(0.5); os.kill(os.getpid(), 11)\n"
        "signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    )
    done = ended(submit(code))
    assert (done.state, done.exit_code, done.signal, done.failed_worker) == (JobState.FAILED, 139, 11, 1)
    assert done.workers[0].signal == signal.SIGKILL
    assert nothing_is_left(done)


def test_a_worker_that_is_killed_ends_the_job(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait, nothing_is_left: Gone
) -> None:
    job = submit(SLEEP)
    wait_until(lambda: both_run(plane))
    plane.executor.end(plane.worker_places(P, "train")[1], kill=True)
    done = ended(job)
    assert (done.state, done.failed_worker) == (JobState.FAILED, 1)
    assert done.error is not None
    assert "worker 1 was killed, and its command with it" in done.error.message
    assert [worker.state for worker in done.workers] == ["FAILED", "LOST"]
    assert nothing_is_left(job)


def test_all_workers_are_cancelled_together(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait, nothing_is_left: Gone
) -> None:
    job = submit(SLEEP)
    wait_until(lambda: both_run(plane))
    plane.cancel_job(P, "train")
    done = ended(job)
    assert (done.state, done.error) == (JobState.CANCELLED, None)
    assert [worker.signal for worker in done.workers] == [signal.SIGTERM] * 2
    assert nothing_is_left(job)


def test_a_slice_that_is_deleted_ends_all_workers(
    plane: ControlPlane, submit: Submit, ended: Ended, pair: str, wait_until: Wait, nothing_is_left: Gone
) -> None:
    job = submit(SLEEP)
    wait_until(lambda: both_run(plane))
    plane.act_on_node(P, Z, pair, "delete")
    done = ended(job)
    assert done.state is JobState.FAILED
    assert done.error is not None
    assert done.error.message == "slice pair was deleted or stopped while the job ran"
    assert nothing_is_left(job)
    wait_until(lambda: plane.list_nodes(P, Z) == [])


def test_the_runtime_s_death_is_told(
    plane: ControlPlane, submit: Submit, ended: Ended, pair: str, wait_until: Wait
) -> None:
    job = submit(
        "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.02)\nraise SystemExit(1)",
        working_directory=str(plane.home.path),
    )
    wait_until(lambda: both_run(plane))
    plane.executor.end(Path(plane.get_slice(P, Z, pair).directory), kill=True)
    wait_until(lambda: plane.get_node(P, Z, pair).health_description)
    (plane.home.path / "go").touch()
    done = ended(job)
    assert done.error is not None
    assert "the runtime of slice pair ended while the job ran" in done.error.message


def test_one_process_can_drive_all_hosts(submit: Submit, ended: Ended) -> None:
    done = ended(submit("raise SystemExit(9 if 'TPUCTL_PROCESS' in os.environ else 0)", processes=1))
    assert (done.state, done.hosts, done.processes, done.workers[0].hosts) == (JobState.SUCCEEDED, 2, 1, 2)


@pytest.mark.parametrize(
    ("given", "processes", "seen"),
    [("100", 2, ["89"] * 2), ("100", 1, ["100"]), ("5", 2, ["1"] * 2), ("wide", 2, ["wide"] * 2)],
)
def test_what_several_workers_draw_leaves_room_for_their_labels(
    submit: Submit, ended: Ended, given: str, processes: int, seen: list[str]
) -> None:
    environment = {"PATH": os.environ["PATH"], "COLUMNS": given}
    code = "open(f'{os.environ[\"TPUCTL_ARTIFACTS_DIR\"]}/{who}', 'w').write(os.environ['COLUMNS'])"
    done = ended(submit(code, processes=processes, environment=environment))
    assert [Path(path).read_text() for path in done.artifacts] == seen


def test_the_command_can_run_on_some_workers_only(submit: Submit, ended: Ended) -> None:
    done = ended(submit("raise SystemExit(who - 1)", workers=[1]))
    assert (done.state, done.processes, [worker.index for worker in done.workers]) == (JobState.SUCCEEDED, 2, [1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"processes": 3},
            r"3 processes can't have an equal share of the hosts: pair \(v3-8\) has 2 hosts; use 1 or 2",
        ),
        ({"processes": 0}, "0 processes can't"),
        ({"workers": [2]}, "there is no worker 2: workers are 0 to 1"),
        ({"workers": []}, "there is no worker chosen"),
        ({"processes": 1, "workers": [1]}, "there is no worker 1: there is only worker 0"),
    ],
)
def test_shares_that_cannot_be_are_refused_and_make_nothing(
    plane: ControlPlane, submit: Submit, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        submit("pass", **options)
    assert plane.list_jobs(P) == []
    assert not (plane.home.path / "jobs").exists()


def test_a_slice_runs_one_job_at_a_time(plane: ControlPlane, submit: Submit, wait_until: Wait) -> None:
    submit(SLEEP)
    wait_until(lambda: both_run(plane))
    with pytest.raises(FailedPrecondition, match=r"slice pair is busy: job train is running on it \(pid \d+\)"):
        submit("pass", name="other")


def test_a_first_failure_is_remembered_while_the_others_end(
    plane: ControlPlane, submit: Submit, ended: Ended, wait_until: Wait
) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(15, lambda *_: (time.sleep(1), os._exit(1)))\n"
        "if who: sys.exit(7)\n"
        "time.sleep(60)"
    )
    job = submit(code)
    wait_until(lambda: plane.get_job(P, "train").failed_worker == 1)
    assert plane.get_job(P, "train").state is JobState.RUNNING
    started = time.monotonic()
    assert ended(job).exit_code == 7
    assert time.monotonic() - started < 5
