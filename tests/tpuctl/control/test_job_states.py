"""The rules of jobs' states say what to do in every situation."""

from __future__ import annotations

import itertools

import pytest

from backend.host.executor import Exit, WorkerState
from backend.runtime.parties import Trouble
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState
from tpuctl.control.job_states import (
    JobAction,
    SliceState,
    at_fault,
    exit_to_tell,
    first_failure,
    how_it_ended,
    next_action,
    outcome,
    shell_status,
    slice_state,
    who_failed,
)

A, R, E, L = WorkerState.ABSENT, WorkerState.RUNNING, WorkerState.EXITED, WorkerState.LOST
SOME = [*itertools.product(WorkerState, repeat=2)]
FAILED = Exit(1, None, 0.0, 2.0)


def asked(
    state: JobState,
    workers: tuple[WorkerState, ...],
    chips: SliceState,
    *,
    cancelled: bool = False,
    failed: bool = False,
) -> JobAction:
    return next_action(state, workers, chips, cancel_requested=cancelled, failed=failed)


@pytest.mark.parametrize(("workers", "chips"), [*itertools.product(SOME, SliceState)])
def test_an_ended_job_is_left_alone(workers: tuple[WorkerState, ...], chips: SliceState) -> None:
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        assert asked(state, workers, chips, cancelled=True, failed=True) is JobAction.KEEP


@pytest.mark.parametrize(
    ("chips", "cancelled", "action"),
    [
        (SliceState.PENDING, False, JobAction.KEEP),
        (SliceState.READY, False, JobAction.START),
        (SliceState.GONE, False, JobAction.ABANDON),
        (SliceState.READY, True, JobAction.DROP),
    ],
)
def test_a_queued_job_waits_for_its_slice(chips: SliceState, cancelled: bool, action: JobAction) -> None:
    assert asked(JobState.QUEUED, (A, A), chips, cancelled=cancelled) is action


@pytest.mark.parametrize("workers", [some for some in SOME if some != (A, A)])
def test_a_job_of_which_workers_were_started_is_adopted(workers: tuple[WorkerState, ...]) -> None:
    assert asked(JobState.QUEUED, workers, SliceState.READY) is JobAction.ADOPT


@pytest.mark.parametrize(("workers", "chips"), [*itertools.product(SOME, SliceState)])
def test_a_running_job_is_never_started_again(workers: tuple[WorkerState, ...], chips: SliceState) -> None:
    assert asked(JobState.RUNNING, workers, chips) not in (JobAction.START, JobAction.ADOPT)


@pytest.mark.parametrize(
    ("workers", "chips", "cancelled", "failed", "action"),
    [
        ((R, R), SliceState.READY, False, False, JobAction.KEEP),
        ((E, R), SliceState.READY, False, False, JobAction.KEEP),
        ((E, R), SliceState.READY, False, True, JobAction.END),
        ((L, R), SliceState.READY, False, True, JobAction.END),
        ((R, R), SliceState.READY, True, False, JobAction.END),
        ((R, R), SliceState.GONE, False, False, JobAction.END),
        ((A, R), SliceState.READY, True, False, JobAction.END),
        ((E, E), SliceState.READY, False, False, JobAction.FINISH),
        ((E, L), SliceState.READY, False, True, JobAction.FINISH),
        ((A, E), SliceState.GONE, True, False, JobAction.FINISH),
    ],
)
def test_workers_run_together_and_are_ended_together(
    workers: tuple[WorkerState, ...], chips: SliceState, cancelled: bool, failed: bool, action: JobAction
) -> None:
    assert asked(JobState.RUNNING, workers, chips, cancelled=cancelled, failed=failed) is action


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ({0: Exit(0, None, 0.0, 1.0), 1: Exit(0, None, 0.0, 9.0)}, None),
        ({0: FAILED, 1: Exit(None, 6, 0.0, 1.5), 2: Exit(0, None, 0.0, 0.5)}, 1),
        ({0: FAILED, 1: None}, 1),
        ({0: FAILED, 1: FAILED}, 0),
        ({}, None),
    ],
)
def test_the_worker_that_failed_first_is_known(ends: dict[int, Exit | None], first: int | None) -> None:
    assert first_failure(ends) == first


@pytest.mark.parametrize(
    ("failed", "cancelled", "state"),
    [
        (None, False, JobState.SUCCEEDED),
        (3, False, JobState.FAILED),
        (0, True, JobState.CANCELLED),
        (None, True, JobState.CANCELLED),
    ],
)
def test_how_workers_end_is_how_their_job_ends(failed: int | None, cancelled: bool, state: JobState) -> None:
    assert outcome(failed, cancel_requested=cancelled) is state


def test_a_job_that_could_not_go_on_has_failed_though_no_worker_has() -> None:
    assert outcome(None, cancel_requested=False, stalled=True) is JobState.FAILED
    assert outcome(None, cancel_requested=True, stalled=True) is JobState.CANCELLED


@pytest.mark.parametrize(
    ("exit", "status", "words"),
    [
        (Exit(3, None, 0.0, 1.0), 3, "failed first: exit status 3"),
        (Exit(None, 9, 0.0, 1.0), 137, "died first: signal 9"),
    ],
)
def test_a_signal_is_told_as_a_shell_does(exit: Exit, status: int, words: str) -> None:
    assert shell_status(exit) == status
    assert how_it_ended(exit) == words


@pytest.mark.parametrize(
    ("failed", "exit", "trouble", "said"),
    [
        (1, FAILED, None, "worker 1 failed first: exit status 1"),
        (1, FAILED, Trouble("worker 2 ended", 2), "worker 2 ended"),
        (2, FAILED, Trouble("worker 2 ended", 2), "worker 2 failed first: exit status 1\nworker 2 ended"),
        (1, FAILED, Trouble("chip 0 has failed"), "worker 1 failed first: exit status 1\nchip 0 has failed"),
        (1, Exit(None, 9, 0.0, 1.0), Trouble("worker 12 ended", 12), "worker 1 died first: signal 9\nworker 12 ended"),
        (1, None, Trouble("worker 2 ended", 2), "worker 1 was killed, and its command with it\nworker 2 ended"),
    ],
)
def test_a_worker_whose_launches_failed_for_another_is_not_blamed(
    failed: int, exit: Exit | None, trouble: Trouble | None, said: str
) -> None:
    assert who_failed(failed, exit, trouble) == said
    assert at_fault(failed, exit, trouble) == (failed if said.startswith(f"worker {failed} ") else 2)


@pytest.mark.parametrize(
    ("failed", "ends", "told"),
    [
        (1, {0: FAILED, 1: Exit(None, 15, 0.0, 9.0)}, FAILED),
        (1, {0: Exit(0, None, 0.0, 0.5), 1: FAILED}, FAILED),
        (1, {0: FAILED, 1: None}, None),
        (1, {0: FAILED, 1: Exit(0, None, 0.0, 0.5)}, FAILED),
        (None, {2: Exit(0, None, 0.0, 1.0), 3: Exit(0, None, 0.0, 0.5)}, Exit(0, None, 0.0, 1.0)),
    ],
    ids=["ended for it", "its own", "lost", "the one to blame did not fail", "none failed"],
)
def test_a_job_ends_as_the_worker_that_failed_first(
    failed: int | None, ends: dict[int, Exit | None], told: Exit | None
) -> None:
    assert exit_to_tell(failed, ends) == told


@pytest.mark.parametrize(
    ("node", "seen"),
    [
        (None, SliceState.GONE),
        (NodeState.DELETING, SliceState.GONE),
        (NodeState.STOPPED, SliceState.GONE),
        (NodeState.REPAIRING, SliceState.PENDING),
        (NodeState.READY, SliceState.READY),
    ],
)
def test_what_a_job_sees_of_its_slice(node: NodeState | None, seen: SliceState) -> None:
    assert slice_state(node) is seen
