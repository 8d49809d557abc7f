"""The rules of jobs' states say what to do in every situation."""

from __future__ import annotations

import itertools

import pytest

from backend.host.executor import Exit, WorkerState
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState
from tpuctl.control.job_states import JobAction, SliceState, next_action, outcome, shell_status, slice_state


@pytest.mark.parametrize(("worker", "chips"), [*itertools.product(WorkerState, SliceState)])
def test_an_ended_job_is_left_alone(worker: WorkerState, chips: SliceState) -> None:
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        assert next_action(state, worker, chips, cancel_requested=True) is JobAction.KEEP


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
    assert next_action(JobState.QUEUED, WorkerState.ABSENT, chips, cancel_requested=cancelled) is action


@pytest.mark.parametrize("worker", [WorkerState.RUNNING, WorkerState.EXITED, WorkerState.LOST])
def test_a_worker_that_was_started_is_adopted_and_not_started_again(worker: WorkerState) -> None:
    assert next_action(JobState.QUEUED, worker, SliceState.READY, cancel_requested=False) is JobAction.ADOPT


@pytest.mark.parametrize(("worker", "chips"), [*itertools.product(WorkerState, SliceState)])
def test_a_running_job_is_never_started_again(worker: WorkerState, chips: SliceState) -> None:
    assert next_action(JobState.RUNNING, worker, chips, cancel_requested=False) is not JobAction.START


def test_a_job_whose_slice_goes_is_ended() -> None:
    action = next_action(JobState.RUNNING, WorkerState.RUNNING, SliceState.GONE, cancel_requested=False)
    assert action is JobAction.CANCEL


@pytest.mark.parametrize(
    ("code", "signal", "cancelled", "state", "status"),
    [
        (0, None, False, JobState.SUCCEEDED, 0),
        (3, None, False, JobState.FAILED, 3),
        (None, 9, False, JobState.FAILED, 137),
        (None, 15, True, JobState.CANCELLED, 143),
        (0, None, True, JobState.CANCELLED, 0),
    ],
)
def test_how_a_command_ends_is_how_its_job_ends(
    code: int | None, signal: int | None, cancelled: bool, state: JobState, status: int
) -> None:
    ended = Exit(code, signal, 0.0, 1.0)
    assert outcome(ended, cancel_requested=cancelled) is state
    assert shell_status(ended) == status


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
