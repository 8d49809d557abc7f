"""A control plane killed at any moment picks up at its next start: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpuctl.api.errors import ApiError, Unavailable
from tpuctl.api.jobs import JobRequest, JobState
from tpuctl.api.nodes import Node, NodeState
from tpuctl.client import Client

Wait = Callable[..., None]
V3 = Node(accelerator_type="v3-8")
ROUNDS = 5


def attempt(call: Callable[[], Any]) -> Any:
    """The call's result; None if the control plane was killed under it."""
    try:
        return call()
    except Unavailable:
        return None


def settled(client: Client) -> bool:
    """Whether every operation is done and every job has ended."""
    return all(one.done for one in client.list_operations()) and all(job.state.ended for job in client.list_jobs())


def check(plane: Any, client: Client) -> None:
    """Every slice that should be has exactly one runtime, and nothing else runs or lies about."""
    nodes = client.list_nodes()
    assert {node.state for node in nodes} <= {NodeState.READY}
    directories = {client.get_slice(node.name.rsplit("/", 1)[-1]).directory for node in nodes}
    assert {str(path) for path in (plane.home.path / "slices").glob("*")} == directories
    assert {str(path) for path in plane.living()} == directories
    runtimes = [one for one in plane.processes() if "--directory" in one.cmdline()]
    assert sorted(one.cmdline()[one.cmdline().index("--directory") + 1] for one in runtimes) == sorted(directories)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_creates_and_deletes_are_finished_after_a_kill(plane_process: Any, wait_until: Wait, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    client = plane_process.start()
    client.wait(client.create_node("old", V3))
    promised = [attempt(lambda name=name: client.create_node(name, V3)) for name in ("a", "b", "c")]
    deleted = attempt(lambda: client.delete_node("old"))
    time.sleep(chance.uniform(0, 0.25))
    plane_process.kill()

    client = plane_process.start()
    wait_until(lambda: settled(client))
    names = {node.name.rsplit("/", 1)[-1] for node in client.list_nodes()}
    assert names == {"a", "b", "c"}
    for operation in [*promised, deleted]:
        done = client.get_operation(operation.name)
        assert done.done
        assert done.error is None
    check(plane_process, client)
    for name in names:
        client.wait(client.delete_node(name))
    check(plane_process, client)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_jobs_end_once_and_give_back_their_slices_after_a_kill(
    plane_process: Any, wait_until: Wait, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311
    client = plane_process.start()
    ran = tmp_path / "ran"
    code = f"import time; open({str(ran)!r}, 'a').write('x'); time.sleep({chance.uniform(0, 0.6)}); raise SystemExit(5)"
    request = JobRequest(
        name="train",
        accelerator_type="v3-8",
        command=[sys.executable, "-c", code],
        working_directory="/",
        environment={"PATH": os.environ["PATH"]},
    )
    client.create_job(request)
    time.sleep(chance.uniform(0, 0.8))
    plane_process.kill()
    time.sleep(chance.uniform(0, 0.4))

    client = plane_process.start()
    wait_until(lambda: settled(client))
    job = client.get_job("train")
    assert (job.state, job.exit_code) == (JobState.FAILED, 5)
    assert ran.read_text() == "x"
    wait_until(lambda: client.list_nodes() == [])
    wait_until(lambda: plane_process.living() == [])
    check(plane_process, client)


@pytest.mark.parametrize("seed", range(3))
def test_a_job_of_several_workers_ends_as_one_after_a_kill(
    plane_process: Any, wait_until: Wait, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311
    client = plane_process.start()
    code = (
        "import os, time\n"
        "who = os.environ['TPUCTL_PROCESS'].split('/')[0]\n"
        f"here = {str(tmp_path)!r} + '/ran'\n"
        "open(here + who, 'a').write('x')\n"
        "while who == '2' and not all(os.path.exists(here + other) for other in '01'): time.sleep(0.01)\n"
        f"time.sleep({chance.uniform(0, 0.6)} if who == '2' else 60)\n"
        "raise SystemExit(5)"
    )
    request = JobRequest(
        name="train",
        accelerator_type="v3-8",
        num_slices=3,
        command=[sys.executable, "-c", code],
        working_directory="/",
        environment={"PATH": os.environ["PATH"]},
    )
    client.create_job(request)
    for _ in range(2):
        time.sleep(chance.uniform(0, 1.0))
        plane_process.kill()
        client = plane_process.start()
    wait_until(lambda: settled(client))
    job = client.get_job("train")
    assert (job.state, job.exit_code, job.failed_worker) == (JobState.FAILED, 5, 2)
    assert [worker.state for worker in job.workers] == ["FAILED"] * 3
    assert [path.read_text() for path in sorted(tmp_path.glob("ran*"))] == ["x"] * 3
    wait_until(lambda: client.list_nodes() == [])
    wait_until(lambda: plane_process.living() == [])
    check(plane_process, client)


def test_a_running_job_does_not_notice_that_the_control_plane_is_killed(
    plane_process: Any, wait_until: Wait, tmp_path: Path
) -> None:
    client = plane_process.start()
    code = (
        "import pathlib, time\n"
        "for i in range(20):\n"
        "    print(i, flush=True)\n"
        f"    while i == 10 and not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)\n"
    )
    request = JobRequest(
        name="train", accelerator_type="v3-8", command=[sys.executable, "-c", code], working_directory="/"
    )
    client.create_job(request)
    wait_until(lambda: client.get_job("train").state is JobState.RUNNING)
    plane_process.kill()
    client = plane_process.start()
    assert client.get_job("train").state is JobState.RUNNING
    (tmp_path / "go").touch()
    events = list(client.watch_job("train"))
    text = "".join(event.text for event in events if event.type == "log")
    assert text == "".join(f"{number}\n" for number in range(20))
    assert client.get_job("train").state is JobState.SUCCEEDED


def test_killed_again_and_again_it_still_gets_there(plane_process: Any, wait_until: Wait) -> None:
    chance = random.Random(1)  # noqa: S311
    client = plane_process.start()
    expected: set[str] = set()
    for number in range(6):
        name = f"n{number}"
        if attempt(lambda client=client, name=name: client.create_node(name, V3)):
            expected.add(name)
        if expected and chance.random() < 0.4:
            victim = sorted(expected)[0]
            try:
                client.delete_node(victim)
                expected.discard(victim)
            except ApiError:
                expected.discard(victim)
        time.sleep(chance.uniform(0, 0.15))
        plane_process.kill()
        client = plane_process.start()
    wait_until(lambda: settled(client))
    assert {node.name.rsplit("/", 1)[-1] for node in client.list_nodes()} == expected
    check(plane_process, client)
