"""A job whose processes wait for one that cannot come is ended; one that may still go on is not."""

from __future__ import annotations

from typing import Any

import pytest

from backend.runtime.parties import Appointment, Parties, Party, Trouble
from tpuctl.control.stalled import FAILED_SECONDS, INITIALIZE_SECONDS, Stall, stall

NOTICE = 10.0
NEEDS_ALL = Appointment(b"step", "jit_step (train.py:4)", frozenset(range(3)))


def told(*waiting: int, trouble: str | None = None) -> dict[str, Any]:
    """What the slice says of a job of three processes, of which some wait at a launch that needs all."""
    parties = Parties()
    for process in waiting:
        run = parties.attach("train", 3, Party(process, 100 + process, appointment=NEEDS_ALL))
        if trouble:
            parties.report(run, Trouble(trouble))
    (found,) = parties.telemetry()["runs"]
    return found


def test_a_launch_that_waits_for_a_worker_which_has_gone_is_given_up_at_once() -> None:
    found = stall(told(0, 2), {1}, set(), set(), NOTICE)
    assert found is not None
    assert found.seconds == 0
    assert found.text.startswith("worker 1 has ended, or was never started, without attaching to the slice; ")
    assert found.text.endswith("launch jit_step (train.py:4)")


def test_all_who_have_gone_are_counted() -> None:
    found = stall(told(0), {1, 2}, set(), set(), NOTICE)
    assert found is not None
    assert "worker 1 has ended, or was never started, without attaching to the slice (1 more, too)" in found.text


@pytest.mark.parametrize("gone", [set(), {1}])
def test_processes_get_some_time_to_end_once_a_launch_has_failed(gone: set[int]) -> None:
    run = told(0, 2, trouble="worker 1 is late")
    assert stall(run, gone, set(), set(), NOTICE) == Stall("worker 1 is late", FAILED_SECONDS)


def test_workers_that_wait_in_initialize_for_one_that_has_gone_are_ended() -> None:
    found = stall(None, {1}, set(), {0, 2}, NOTICE)
    assert found is not None
    assert (found.seconds, found.final) == (INITIALIZE_SECONDS, True)
    assert "jax.distributed.initialize()" in found.text


@pytest.mark.parametrize(
    ("late", "waiting", "text"),
    [
        ({1}, {0, 2}, "worker 1 has not come to jax.distributed.initialize(), where workers 0 and 2 wait for all"),
        ({0, 1}, {2}, "workers 0 and 1 have not come to jax.distributed.initialize(), where worker 2 waits for all"),
        (
            set(range(1, 20)),
            {0},
            "worker 1 and 18 others have not come to jax.distributed.initialize(), where worker 0 waits for all",
        ),
    ],
)
def test_who_is_late_for_initialize_is_named_and_the_job_goes_on(late: set[int], waiting: set[int], text: str) -> None:
    assert stall(None, set(), late, waiting, NOTICE) == Stall(text, NOTICE, final=False)


@pytest.mark.parametrize(
    ("run", "gone", "late", "waiting"),
    [
        (None, set(), set(), {0, 1, 2}),
        (None, set(), {0, 1, 2}, set()),
        (None, {1}, {0, 2}, set()),
        (told(0, 1), set(), {2}, set()),
        (told(0, 2), {0}, set(), set()),
        (told(0, 1, 2), {2}, set(), set()),
    ],
    ids=["all are there", "nobody initializes", "one is gone", "one is late", "one has done its part", "all have come"],
)
def test_a_job_that_may_go_on_is_left_alone(
    run: dict[str, Any] | None, gone: set[int], late: set[int], waiting: set[int]
) -> None:
    assert stall(run, gone, late, waiting, NOTICE) is None
