"""A job whose processes wait for one that cannot come is ended; one that may still go on is not."""

from __future__ import annotations

from typing import Any

import pytest

from backend.runtime.parties import Appointment, Parties, Party
from tpuctl.control.stalled import FAILED_SECONDS, INITIALIZE_SECONDS, Stall, stall

NEEDS_ALL = Appointment(b"step", "jit_step (train.py:4)", frozenset(range(3)))


def told(*waiting: int, trouble: str | None = None) -> dict[str, Any]:
    """What the slice says of a job of three processes, of which some wait at a launch that needs all."""
    parties = Parties()
    for process in waiting:
        run = parties.attach("train", 3, Party(process, 100 + process, appointment=NEEDS_ALL))
        if trouble:
            parties.report(run, trouble)
    (found,) = parties.telemetry()
    return found


def test_a_launch_that_waits_for_a_worker_which_has_gone_is_given_up_at_once() -> None:
    found = stall(told(0, 2), {1}, coordinated=False)
    assert found is not None
    assert found.seconds == 0
    assert found.text.startswith("worker 1 has ended, or was never started, without attaching to the slice; ")
    assert found.text.endswith("launch jit_step (train.py:4)")


def test_all_who_have_gone_are_counted() -> None:
    found = stall(told(0), {1, 2}, coordinated=False)
    assert found is not None
    assert "worker 1 has ended, or was never started, without attaching to the slice (1 more, too)" in found.text


@pytest.mark.parametrize("gone", [set(), {1}])
def test_processes_get_some_time_to_end_once_a_launch_has_failed(gone: set[int]) -> None:
    assert stall(told(0, 2, trouble="worker 1 is late"), gone, coordinated=True) == Stall(
        "worker 1 is late", FAILED_SECONDS
    )


def test_workers_that_wait_in_initialize_for_one_that_has_gone_are_ended() -> None:
    found = stall(None, {1}, coordinated=True)
    assert found is not None
    assert found.seconds == INITIALIZE_SECONDS
    assert "jax.distributed.initialize()" in found.text


@pytest.mark.parametrize(
    ("run", "gone", "coordinated"),
    [
        (None, set(), True),
        (None, {1}, False),
        (told(0, 1), set(), True),
        (told(0, 2), {0}, True),
        (told(0, 1, 2), {2}, True),
    ],
    ids=["all run", "nobody initializes", "one is late", "one has done its part", "all have come"],
)
def test_a_job_that_may_go_on_is_left_alone(run: dict[str, Any] | None, gone: set[int], coordinated: bool) -> None:
    assert stall(run, gone, coordinated=coordinated) is None
