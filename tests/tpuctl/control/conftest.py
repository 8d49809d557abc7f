"""A control plane in this process, with stand-ins for slice runtimes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.api.jobs import Job
from tpuctl.control.plane import ControlPlane

FAKE_RUNTIME = (sys.executable, str(Path(__file__).with_name("fake_runtime.py")))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    made = ControlPlane(Home(tmp_path), LocalExecutor(FAKE_RUNTIME))
    made.start()
    yield made
    made.end()
    for directory in [*tmp_path.glob("slices/*"), *tmp_path.glob("jobs/*/worker-*")]:
        made.executor.end(directory, kill=True)
        wait_until(lambda directory=directory: not made.executor.is_alive(directory))


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., None]:
    return wait_until


@pytest.fixture
def ended(plane: ControlPlane, wait_until: Callable[..., None]) -> Callable[[Job], Job]:
    """Waits for a job's end, and gives it as it is then."""

    def wait(job: Job) -> Job:
        wait_until(lambda: plane.get_job(job.project, job.name).state.ended)
        return plane.get_job(job.project, job.name)

    return wait
