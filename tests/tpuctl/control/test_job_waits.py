"""The tables say what a job does that waits, whatever it sees of its slice."""

from __future__ import annotations

import itertools

import pytest

from tpuctl.api.jobs import JobPlan, JobState, RestartPolicy
from tpuctl.control.attempts import ended_after
from tpuctl.control.job_waits import For, Seen, WaitAction, refused, wait_action
from tpuctl.control.restarts import RESTARTS, Why, pause, restarts, why_ended

EVERY = list(RestartPolicy)


@pytest.mark.parametrize(("how", "own"), [*itertools.product(Seen, (True, False))])
def test_nothing_is_made_or_taken_before_its_time(how: Seen, own: bool) -> None:
    assert wait_action(how, own=own, due=False) in (WaitAction.KEEP, WaitAction.UNMAKE, WaitAction.REPAIR)


def test_a_slice_of_the_users_is_only_taken() -> None:
    assert {how for how in Seen if wait_action(how, own=False, due=True) is not WaitAction.KEEP} == {Seen.READY}


def test_a_slice_of_its_own_is_made_anew_or_repaired() -> None:
    found = {how: wait_action(how, own=True, due=True) for how in Seen}
    assert {how: action for how, action in found.items() if action is not WaitAction.KEEP} == {
        Seen.ABSENT: WaitAction.MAKE,
        Seen.READY: WaitAction.TAKE,
        Seen.BROKEN: WaitAction.REPAIR,
        Seen.LOST: WaitAction.UNMAKE,
    }


def test_each_policy_covers_those_before_it() -> None:
    for policy, stronger in itertools.pairwise(EVERY):
        assert RESTARTS[policy] <= RESTARTS[stronger]
    assert all(Why.CANCELLED not in RESTARTS[policy] and Why.TIMED_OUT not in RESTARTS[policy] for policy in EVERY)


@pytest.mark.parametrize(
    ("policy", "most", "why", "before", "again"),
    [
        ("never", None, Why.PREEMPTED, 0, False),
        ("on-preemption", None, Why.PREEMPTED, 1000, True),
        ("on-preemption", 2, Why.SLICE_GONE, 1, True),
        ("on-preemption", 2, Why.SLICE_BROKEN, 2, False),
        ("on-preemption", None, Why.FAILED, 0, False),
        ("on-failure", None, Why.FAILED, 2, True),
        ("on-failure", None, Why.FAILED, 3, False),
        ("on-failure", None, Why.SUCCEEDED, 0, False),
        ("always", 0, Why.SUCCEEDED, 0, False),
        ("always", 1, Why.SUCCEEDED, 0, True),
    ],
)
def test_who_is_restarted(policy: str, most: int | None, why: Why, before: int, again: bool) -> None:
    plan = JobPlan(restart=RestartPolicy(policy), max_restarts=most)
    assert restarts(plan, why, before) is again


@pytest.mark.parametrize(
    ("state", "noticed", "gone", "late", "why"),
    [
        (JobState.SUCCEEDED, False, False, False, Why.SUCCEEDED),
        (JobState.SUCCEEDED, True, False, False, Why.PREEMPTED),
        (JobState.SUCCEEDED, False, True, False, Why.SUCCEEDED),
        (JobState.FAILED, False, True, False, Why.SLICE_GONE),
        (JobState.FAILED, True, True, False, Why.PREEMPTED),
        (JobState.FAILED, False, False, False, Why.FAILED),
        (JobState.FAILED, True, False, True, Why.TIMED_OUT),
        (JobState.CANCELLED, True, True, False, Why.CANCELLED),
    ],
)
def test_why_an_attempt_ended(state: JobState, noticed: bool, gone: bool, late: bool, why: Why) -> None:
    assert why_ended(state, None, 0.0, noticed=noticed, slice_gone=gone, timed_out=late) is why


def test_how_long_an_attempt_ran_is_known_where_no_worker_says_so() -> None:
    times = {"startTime": "2027-01-15T08:00:00Z", "endTime": "2027-01-15T08:10:00Z"}
    said = [{"number": 1, "ended": "slice broken", **times}, {"number": 2, "ended": "failed", "hostSeconds": 7.0}]
    assert ended_after(said) == [(Why.SLICE_BROKEN, 600.0), (Why.FAILED, 7.0)]


def test_pauses_grow_with_failures_in_a_row() -> None:
    failed, early, late = (Why.FAILED, 500.0), (Why.PREEMPTED, 5.0), (Why.PREEMPTED, 500.0)
    assert [pause([failed] * count) for count in (1, 2, 3, 10)] == [1, 2, 4, 60]
    assert pause([failed, late]) == pause([early]) == pause([]) == 0
    assert pause([failed, late, failed]) == 1
    assert [pause([early] * count) for count in (1, 2, 3, 10)] == [0, 2, 4, 60]
    assert pause([early, early, late]) == 0
    long = (Why.FAILED, 3600.0)
    assert [pause([failed] * 5 + [long] * count) for count in (1, 2, 3)] == [1, 1, 1]
    assert pause([failed, long, failed]) == 2
    waits = None
    for seconds in (5, 10, 20, 40, 60, 60):
        waits = refused(waits, "no", 100.0)
        assert (waits["kind"], waits["until"]) == (For.CAPACITY, 100.0 + seconds)
