"""Who starts when: look-ahead, holds, and what stands in the way of those who wait."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backend.fleet import Request, Snapshot, layout_of, place
from backend.fleet.backfill import BOXES, Policy, Waiting, starts
from backend.fleet.defragment import make_room
from backend.fleet.obstacles import obstacles
from backend.fleet.simulation import Scenario, simulate

POD = layout_of("v3", (16, 16))
WHOLE, HALF, UNIT, HOST = Request((16, 16, 1)), Request((8, 16, 1)), Request((4, 4, 1)), Request((2, 2, 1))


def filled(*slices: tuple[Request, float]) -> Snapshot:
    snapshot = Snapshot.empty(POD)
    for request, until in slices:
        found = place(snapshot, request, until)
        assert found is not None
        snapshot = snapshot.with_taken(found.chips, until)
    return snapshot


def started(*args: object, **options: object) -> list[Waiting]:
    return [one for one, _ in starts(*args, **options).placed]  # type: ignore[arg-type]


def test_those_who_fit_start_in_their_order() -> None:
    queue = [Waiting(HALF), Waiting(UNIT), Waiting(HALF)]
    assert started(Snapshot.empty(POD), queue, 0.0) == queue[:2]


def test_others_go_ahead_of_one_who_does_not_fit_within_the_look_ahead() -> None:
    queue = [Waiting(WHOLE) for _ in range(3)] + [Waiting(UNIT)]
    busy = filled((UNIT, 10.0))
    assert started(busy, queue, 0.0, policy=Policy(look_ahead=4)) == queue[3:]
    assert started(busy, queue, 0.0, policy=Policy(look_ahead=3)) == []


def test_who_has_seen_many_start_gets_a_hold_and_others_only_what_ends_before() -> None:
    busy = filled((HALF, 100.0))
    first = Waiting(WHOLE)
    short, long = Waiting(UNIT, seconds=90.0), Waiting(UNIT, seconds=200.0)
    policy = dataclasses.replace(BOXES, patience=0)
    decided = starts(busy, [first, long, short], 0.0, policy=policy)
    assert [one for one, _ in decided.placed] == [short]
    (hold,) = decided.holds
    assert (hold.waiting, hold.ready) == (first, 100.0)
    later = starts(Snapshot.empty(POD), [first, long], 100.0, decided.holds, policy)
    assert [one for one, _ in later.placed] == [first]
    assert later.holds == []


def test_nobody_is_held_a_place_before_his_patience_ends() -> None:
    busy = filled((HALF, 100.0))
    policy = dataclasses.replace(BOXES, patience=5)
    assert started(busy, [Waiting(WHOLE), Waiting(UNIT)], 0.0, policy=policy) != []
    assert started(busy, [Waiting(WHOLE), Waiting(UNIT)], 0.0, policy=policy, started=5) == []


def test_the_hold_of_one_who_has_left_the_queue_is_dropped() -> None:
    busy = filled((HALF, 100.0))
    policy = dataclasses.replace(BOXES, patience=0)
    decided = starts(busy, [Waiting(WHOLE), Waiting(UNIT)], 0.0, policy=policy)
    other = Waiting(UNIT)
    assert started(busy, [other], 0.0, decided.holds, policy) == [other]


def test_with_several_holds_each_has_chips_of_its_own() -> None:
    busy = filled((HALF, 100.0), (HALF, 50.0))
    policy = Policy(patience=0, holds=2)
    decided = starts(busy, [Waiting(HALF), Waiting(HALF), Waiting(HALF)], 0.0, policy=policy)
    assert [hold.ready for hold in decided.holds] == [50.0, 100.0]
    assert not (decided.holds[0].chips & decided.holds[1].chips).any()


def test_obstacles_are_the_fewest_chips_in_the_way() -> None:
    busy = filled((HALF, np.inf), (UNIT, np.inf))
    found = obstacles(busy, HALF)
    assert (found.needed, found.free, found.never) == (128, 112, False)
    assert int(np.bitwise_count(found.chips).sum()) == 16
    assert found.largest == (8, 8, 1)
    assert obstacles(filled((WHOLE, np.inf)), HOST).largest is None


def test_what_is_larger_than_the_pod_never_fits() -> None:
    assert obstacles(Snapshot.empty(POD), Request((16, 32, 1))).never
    assert obstacles(Snapshot.empty(layout_of("v4", (8, 8, 8))), Request((8, 8, 16))).never


def scattered(request: Request) -> tuple[Snapshot, dict[str, tuple[Request, np.ndarray]]]:
    """A pod with one slice in every second unit."""
    snapshot, slices = Snapshot.empty(POD), {}
    for unit in range(0, POD.num_units, 2):
        chips = np.zeros(POD.num_units, np.uint64)
        chips[unit] = POD.full_mask if request is UNIT else np.uint64(0b110011)
        snapshot = snapshot.with_taken(chips)
        slices[f"s{unit}"] = (request, chips)
    return snapshot, slices


@pytest.mark.parametrize("request_", [UNIT, HOST], ids=["units", "hosts"])
def test_slices_move_to_make_room(request_: Request) -> None:
    snapshot, slices = scattered(request_)
    assert place(snapshot, HALF) is None
    plan = make_room(snapshot, HALF, slices)
    assert plan is not None
    assert 0 < len(plan.moves) <= 4
    after = snapshot
    for move in plan.moves:
        after = after.without(slices[move.name][1])
    for placement in [plan.placement, *(move.to for move in plan.moves)]:
        assert not (after.taken & placement.chips).any()
        after = after.with_taken(placement.chips)


def test_what_may_not_move_stays() -> None:
    snapshot, slices = scattered(UNIT)
    assert make_room(snapshot, HALF, {}) is None
    some = dict(list(slices.items())[:2])
    plan = make_room(snapshot, HALF, some)
    assert plan is None or {move.name for move in plan.moves} <= some.keys()
    assert make_room(snapshot, WHOLE, slices) is None


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_simulation_is_the_same_again_and_fills_the_pod(contiguous: bool) -> None:
    scenario = Scenario(layout_of("v4"), contiguous, requests=1500, backlog=64)
    first, again = simulate(scenario), simulate(scenario)
    assert first.busy == again.busy
    assert first.utilisation > 0.8
    assert max(share for _, share in first.busy) <= 1.0
