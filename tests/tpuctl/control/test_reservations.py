"""Chips that are kept for some projects: who gets them, from when to when, and where in the pods they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.fleet import Snapshot, layout_of
from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.catalogue import ReservationState
from tpuctl.api.errors import ApiError, ResourceExhausted
from tpuctl.api.fleet import FleetFile, PodSpec, ReservedPart
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedState
from tpuctl.api.reservations import ReservationSpec
from tpuctl.control.plane import ControlPlane
from tpuctl.control.reserved import choose

P, Z = "local", "us-central2-b"
TWO_CUBES = FleetFile(pods=[PodSpec(name="pod", zone=Z, generation="v4", shape="4x4x8")], grace_seconds=2)


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    fleet = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])
    made = Simulation(tmp_path / "home", fleet)
    yield made
    made.plane.store.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Simulation]:
    """One pod of 128 chips, and no more."""
    made = Simulation(tmp_path / "small", TWO_CUBES)
    yield made
    made.plane.store.close()


def create(plane: ControlPlane, name: str, kind: str = "v4-8", project: str = P, **scheduling: Any) -> None:
    spec = {"acceleratorType": kind, "schedulingConfig": scheduling}
    plane.create_node(project, Z, name, NodeSpec.model_validate(spec))


def states(plane: ControlPlane, project: str = P) -> dict[str, NodeState | None]:
    return {node.name.rpartition("/")[2]: node.state for node in plane.list_nodes(project, Z)}


def hours(simulation: Simulation, count: float) -> str:
    """So long from now."""
    return datetime.fromtimestamp(simulation.clock.now + 3600 * count, UTC).isoformat()


def reserve(plane: ControlPlane, name: str, chips: int, **more: Any) -> None:
    asked = {"name": name, "project": P, "zone": Z, "generation": "v4", "chips": chips} | more
    plane.create_reservation(ReservationSpec.model_validate(asked))


def test_reserved_slices_take_from_reservations_only(simulation: Simulation) -> None:
    plane = simulation.plane
    create(plane, "before", reserved=True)  # nobody has reserved anything yet
    reserve(plane, "ours", 12)
    create(plane, "a", reserved=True)
    create(plane, "b", reserved=True)
    with pytest.raises(ResourceExhausted, match="Insufficient reserved capacity"):
        create(plane, "c", reserved=True)
    with pytest.raises(ResourceExhausted, match="Insufficient reserved capacity"):
        create(plane, "theirs", project="other", reserved=True)
    create(plane, "c")
    assert [(one.name, one.in_use) for one in plane.list_reservations(P).reservations] == [("ours", 12)]
    (shown,) = plane.page_of_reservations(P, Z)
    assert shown.name == f"projects/{P}/locations/{Z}/reservations/ours"
    simulation.run(3)
    plane.act_on_node(P, Z, "a", "delete")
    simulation.run(3)
    create(plane, "d", reserved=True)


def test_reservations_are_shared_and_have_a_start_and_an_end(simulation: Simulation) -> None:
    plane = simulation.plane
    now = simulation.clock.now
    start, end = (datetime.fromtimestamp(now + hours * 3600, UTC).isoformat() for hours in (1, 2))
    reserve(plane, "later", 8, start=start, end=end, sharedWith=["other"])
    for project in (P, "other"):
        with pytest.raises(ResourceExhausted, match="Insufficient reserved capacity"):
            create(plane, "a", project=project, reserved=True)
    simulation.clock.now += 3700
    create(plane, "a", project="other", reserved=True)
    create(plane, "a", reserved=True)
    assert plane.list_reservations("other").reservations[0].in_use == 8
    simulation.clock.now += 3700
    with pytest.raises(ResourceExhausted):
        create(plane, "b", reserved=True)
    assert plane.page_of_reservations(P, Z)[0].state is ReservationState.EXPIRED
    assert plane.list_reservations("third").reservations == []


def test_one_reservation_can_be_asked_for_by_its_name(simulation: Simulation) -> None:
    plane = simulation.plane
    reserve(plane, "small", 4)
    reserve(plane, "large", 8)
    spec = {"acceleratorType": "v4-16", "schedulingConfig": {"reservationName": "projects/p/reservations/small"}}
    with pytest.raises(ResourceExhausted):
        plane.create_node(P, Z, "a", NodeSpec.model_validate(spec))
    create(plane, "a", "v4-16", reserved=True)
    assert {one.name: one.in_use for one in plane.list_reservations(P).reservations} == {"small": 0, "large": 8}


def test_reservations_that_mean_nothing_are_refused(simulation: Simulation) -> None:
    plane = simulation.plane
    reserve(plane, "a", 4)
    for more, said in (
        ({"generation": "v3"}, "is not offered in"),
        ({"zone": "nowhere"}, "Location nowhere is not found"),
        ({"end": "2020-01-01T00:00:00Z"}, "is not after the start"),
        ({"name": "a"}, "already exists"),
        ({"name": "A b"}, "is not valid"),
    ):
        with pytest.raises(ApiError) as raised:
            reserve(plane, **({"name": "b", "chips": 4} | more))
        assert said in raised.value.message
    plane.delete_reservation(P, Z, "a")
    with pytest.raises(ApiError, match="was not found"):
        plane.delete_reservation(P, Z, "a")


def test_what_is_reserved_is_no_other_s(small: Simulation) -> None:
    reserve(small.plane, "ours", 64)
    for name in ("a", "b"):
        create(small.plane, name, "v4-128", "other")
        small.run(3)
    assert states(small.plane, "other") == {"a": NodeState.READY}
    pod = small.plane.get_pod("pod")
    assert (pod.in_use, pod.free, pod.reserved) == (64, 0, 64)
    small.step_and_die(1)
    create(small.plane, "mine", "v4-128", reserved=True)
    small.run(3)
    assert states(small.plane) == {"mine": NodeState.READY}
    assert small.plane.get_pod("pod").reserved == 0
    small.plane.delete_reservation(P, Z, "ours")
    small.plane.act_on_node(P, Z, "mine", "delete")
    small.run(3)
    create(small.plane, "c", "v4-128", "other")
    small.run(3)
    assert states(small.plane, "other") == {"a": NodeState.READY, "c": NodeState.READY}


def test_before_the_start_and_after_the_end_anyone_gets_the_chips(small: Simulation) -> None:
    reserve(small.plane, "later", 128, start=hours(small, 1), end=hours(small, 2))
    create(small.plane, "before", "v4-128", "other")
    create(small.plane, "spot", "v4-128", "other", spot=True)
    small.run(3)
    small.clock.now += 3600
    create(small.plane, "refused", "v4-8", "other")
    small.run(3)
    both = {"before": NodeState.READY, "spot": NodeState.READY}
    assert states(small.plane, "other") == both
    create(small.plane, "mine", "v4-128", reserved=True)
    small.run(8)
    assert states(small.plane, "other") == both | {"spot": NodeState.PREEMPTED}
    assert states(small.plane) == {"mine": NodeState.READY}
    small.clock.now += 3600
    small.plane.act_on_node(P, Z, "mine", "delete")
    small.run(3)
    create(small.plane, "after", "v4-128", "other")
    small.run(3)
    assert states(small.plane, "other")["after"] is NodeState.READY


def test_a_reservation_that_the_fleet_file_names_is_there(tmp_path: Path) -> None:
    part = ReservedPart(reservation="r", box="4x4x4@0,0,4")
    fleet = FleetFile(pods=[PodSpec(name="pod", zone=Z, generation="v4", shape="4x4x8", reserved=[part])])
    simulation = Simulation(tmp_path / "home", fleet)
    plane = simulation.plane
    with pytest.raises(ApiError, match="the fleet file has 64 for r"):
        reserve(plane, "r", 65)
    reserve(plane, "r", 64, sharedWith=["other"])
    with pytest.raises(ResourceExhausted, match="Insufficient reserved capacity"):
        create(plane, "a", "v4-8", "third", reserved=True)
    create(plane, "a", "v4-128", "other", reservationName="r")
    simulation.run(3)
    (slice_,) = plane.get_pod("pod").slices
    assert (slice_.project, slice_.size) == ("other", "4x4x4")
    assert plane.get_pod("pod").planes[4].startswith("A")
    plane.store.close()


def test_what_is_not_there_cannot_be_reserved(small: Simulation) -> None:
    create(small.plane, "a", "v4-128")
    small.run(3)
    with pytest.raises(ResourceExhausted, match="no pod of us-central2-b has 65 chips of v4 left to reserve"):
        reserve(small.plane, "large", 65)
    reserve(small.plane, "rest", 60)
    with pytest.raises(ResourceExhausted):
        reserve(small.plane, "more", 16)


def test_an_elastic_fleet_has_another_pod_for_a_reservation(simulation: Simulation) -> None:
    reserve(simulation.plane, "one", 64)
    reserve(simulation.plane, "two", 64)
    simulation.step_and_die(0)
    plane = simulation.plane
    assert [pod.reserved for pod in plane.list_pods() if pod.reserved] == [64, 64]
    create(plane, "a", "v4-128", reservationName="two")
    simulation.run(3)
    assert plane.list_pods()[1].slices[0].name == "a"


def test_a_queued_resource_names_its_reservation(small: Simulation) -> None:
    reserve(small.plane, "ours", 64)
    node = {"node": {"acceleratorType": "v4-128", "runtimeVersion": "x"}, "nodeId": "n"}
    asked = {"tpu": {"nodeSpec": node}, "reservationName": f"projects/{P}/locations/{Z}/reservations/ours"}
    small.plane.create_queued(P, Z, "q", QueuedResource.model_validate(asked))
    small.run(5)
    found = small.plane.get_queued(P, Z, "q").state
    assert found is not None
    assert found.state is QueuedState.ACTIVE
    assert [one.in_use for one in small.plane.list_reservations(P).reservations] == [64]


@pytest.mark.parametrize("generation", ["v3", "v4", "v5e", "7x"])
def test_chips_are_chosen_among_the_free_ones_and_are_enough(generation: str) -> None:
    layout = layout_of(generation, (16, 16) if generation in ("v3", "v5e") else (8, 8, 8))
    rng = np.random.default_rng(7)
    for chips in (1, 3, 4, 8, 16, 17, 48, 64, 100, 200, 256):
        taken = np.where(rng.random(layout.num_units) < 0.1, layout.full_mask, np.uint64(0))
        found = choose(Snapshot.empty(layout).with_taken(taken), chips)
        if found is not None:
            assert not (found & taken).any()
            assert chips <= int(np.bitwise_count(found).sum()) <= 2 * chips + 16
    whole = choose(Snapshot.empty(layout), layout.num_chips)
    assert whole is not None
    assert (whole == layout.full_mask).all()
    assert choose(Snapshot.empty(layout), layout.num_chips + 1) is None
