"""Slices get their chips from pods; those for whom there is no room wait, make way, or are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.host.executor import LocalExecutor
from tests.tpuctl.control.conftest import FAKE_RUNTIME
from tpuctl.api.errors import ApiError, from_status
from tpuctl.api.fleet import FleetFile, MaintenanceWindow, PodSpec, ReservedPart
from tpuctl.api.home import Home
from tpuctl.api.nodes import CONTIGUOUS, NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedState
from tpuctl.api.status import FaultRequest
from tpuctl.control.plane import ControlPlane

P, Z = "local", "us-central2-b"
Wait = Callable[..., None]
Make = Callable[..., ControlPlane]
SPOT = {"schedulingConfig": {"spot": True}}
RESERVED = {"schedulingConfig": {"reserved": True}}


def fleet(**pod: Any) -> FleetFile:
    """A pod of 128 chips: two cubes."""
    spec = {"zone": Z, "generation": "v4", "shape": "4x4x8", "name": "pod"} | pod
    return FleetFile(pods=[PodSpec.model_validate(spec)], grace_seconds=0.3)


@pytest.fixture
def make(tmp_path: Path, wait_until: Wait) -> Iterator[Make]:
    """Control planes of one home, one after the other."""
    planes: list[ControlPlane] = []

    def made(file: FleetFile) -> ControlPlane:
        for before in planes:
            before.end()
        planes.append(ControlPlane(Home(tmp_path), LocalExecutor(FAKE_RUNTIME), fleet=file))
        planes[-1].start()
        return planes[-1]

    yield made
    planes[-1].end()
    executor = planes[-1].executor
    for directory in tmp_path.glob("slices/*"):
        executor.end(directory, kill=True)
        wait_until(lambda directory=directory: not executor.is_alive(directory))


def spec(kind: str = "v4-128", **more: Any) -> NodeSpec:
    return NodeSpec.model_validate({"acceleratorType": kind} | more)


def create(plane: ControlPlane, wait: Wait, name: str, kind: str = "v4-128", project: str = P, **more: Any) -> None:
    """Raises the operation's error."""
    operation = plane.create_node(project, Z, name, spec(kind, **more)).name.rpartition("/")[2]
    wait(lambda: plane.get_operation(project, Z, operation).done)
    found = plane.get_operation(project, Z, operation)
    if found.error is not None:
        raise from_status(found.error.to_json())


def queue(plane: ControlPlane, name: str, kind: str = "v4-128", project: str = P, **more: Any) -> None:
    node = {"acceleratorType": kind, "runtimeVersion": "x"}
    several = more.pop("several", None)
    one = {"node": node, **({"multisliceParams": {"nodeCount": several}} if several else {"nodeId": f"{name}-node"})}
    plane.create_queued(project, Z, name, QueuedResource.model_validate({"tpu": {"nodeSpec": one}, **more}))


def queued_state(plane: ControlPlane, name: str, project: str = P) -> QueuedState | None:
    found = plane.get_queued(project, Z, name).state
    return found and found.state


def node_state(plane: ControlPlane, name: str) -> NodeState | None:
    return plane.get_node(P, Z, name).state


def delete(plane: ControlPlane, name: str, project: str = P) -> None:
    plane.act_on_node(project, Z, name, "delete")


def events(plane: ControlPlane, resource: str) -> list[str]:
    with plane.store.read() as reader:
        return [event.change for event in reader.events(f"projects/{P}/locations/{Z}/{resource}")]


def test_what_has_no_room_is_a_stockout_and_leaves_nothing(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "a", "v4-256")
    with pytest.raises(ApiError, match='There is no more capacity in the zone "us-central2-b"') as raised:
        create(plane, wait_until, "b")
    assert raised.value.code == 8
    assert [node.name.rpartition("/")[2] for node in plane.list_nodes(P, Z)] == ["a"]
    (pod,) = plane.list_pods()
    assert (pod.in_use, pod.free, pod.largest_free) == (128, 0, None)
    delete(plane, "a")
    wait_until(lambda: plane.list_pods()[0].free == 128)
    create(plane, wait_until, "b")


def test_without_a_fleet_file_capacity_never_ends(make: Make, wait_until: Wait) -> None:
    plane = make(FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")]))
    for name in "abc":
        create(plane, wait_until, name)
    assert [pod.name for pod in plane.list_pods() if pod.in_use] == [f"v4-{Z}", f"v4-{Z}-2", f"v4-{Z}-3"]
    again = make(FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")]))
    assert [pod.in_use for pod in again.list_pods() if pod.in_use] == [64, 64, 64]


def test_slices_stay_where_they_are_when_the_control_plane_is_started_again(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    for name, kind in (("a", "v4-8"), ("b", "v4-128"), ("c", "v4-16")):
        create(plane, wait_until, name, kind)
    before = plane.list_pods()
    assert make(fleet()).list_pods() == before


def test_a_queued_resource_waits_for_room_and_says_why(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "a", "v4-256")
    queue(plane, "q", "v4-256")
    queue(plane, "r")
    wait_until(lambda: queued_state(plane, "r") is QueuedState.WAITING_FOR_RESOURCES)
    wait_until(lambda: len(plane.queue(P).waiting) == 2)
    first, second = plane.queue(P).waiting
    assert (first.name.rpartition("/")[2], first.position, second.position) == ("q", 1, 2)
    assert first.reason == "v4-256 needs 128 chips; all are in use"
    delete(plane, "a")
    wait_until(lambda: queued_state(plane, "q") is QueuedState.ACTIVE)
    assert queued_state(plane, "r") is QueuedState.WAITING_FOR_RESOURCES


def test_others_go_ahead_only_where_the_first_will_not_be(make: Make, wait_until: Wait) -> None:
    plane = make(fleet(shape="4x4x12"))
    create(plane, wait_until, "a")
    create(plane, wait_until, "b")
    queue(plane, "first", "v4-256")
    wait_until(lambda: len(plane.queue(P).waiting) == 1)
    queue(plane, "second")
    wait_until(lambda: len(plane.queue(P).waiting) == 2)
    delete(plane, "a")
    wait_until(lambda: queued_state(plane, "first") is QueuedState.ACTIVE)
    assert queued_state(plane, "second") is QueuedState.WAITING_FOR_RESOURCES


def test_who_could_start_but_for_the_first_is_told(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "a")
    queue(plane, "first", "v4-256")
    wait_until(lambda: len(plane.queue(P).waiting) == 1)
    queue(plane, "second")
    wait_until(lambda: len(plane.queue(P).waiting) == 2)
    assert plane.queue(P).waiting[1].reason == "the place is kept for first, which has waited longer"


def test_one_who_can_never_be_placed_keeps_no_place_from_others(make: Make, wait_until: Wait) -> None:
    plane = make(fleet(broken=["0,0,0"]))
    queue(plane, "whole", "v4-256")
    queue(plane, "half")
    wait_until(lambda: queued_state(plane, "half") is QueuedState.ACTIVE)
    (waiting,) = plane.queue(P).waiting
    assert waiting.reason == f"no pod of {Z} has room for v4-256 beside its broken, reserved and spare chips"
    detail = plane.queued_detail(P, Z, "whole")
    assert detail.waits == waiting
    assert [event.change.rpartition(" ")[2] for event in detail.events] == [
        "CREATING",
        "ACCEPTED",
        "WAITING_FOR_RESOURCES",
    ]


def test_a_known_end_makes_the_start_known(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    end = datetime.now(UTC) + timedelta(hours=1)
    create(plane, wait_until, "a", "v4-256", schedulingConfig={"terminationTimestamp": end.isoformat()})
    queue(plane, "first", "v4-256")
    wait_until(lambda: len(plane.queue(P).waiting) == 1)
    assert plane.queue(P).waiting[0].expected_start == end


def test_several_slices_start_together_or_not_at_all(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "a", "v4-8")
    queue(plane, "q", several=2)
    wait_until(lambda: len(plane.queue(P).waiting) == 1)
    assert [node.name.rpartition("/")[2] for node in plane.list_nodes(P, Z)] == ["a"]
    delete(plane, "a")
    wait_until(lambda: queued_state(plane, "q") is QueuedState.ACTIVE)
    assert plane.list_pods()[0].free == 0


def test_projects_take_turns(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "a")
    create(plane, wait_until, "b", project="other")
    for name in ("p1", "p2"):
        queue(plane, name)
    queue(plane, "o1", project="other")
    wait_until(lambda: len(plane.queue(P).waiting) + len(plane.queue("other").waiting) == 3)
    delete(plane, "b", project="other")
    wait_until(lambda: queued_state(plane, "o1", "other") is QueuedState.ACTIVE)
    assert queued_state(plane, "p1") is QueuedState.WAITING_FOR_RESOURCES


def test_spot_slices_make_way_after_a_notice(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    create(plane, wait_until, "cheap", **SPOT)
    create(plane, wait_until, "dear")
    began = time.monotonic()
    create(plane, wait_until, "new")
    assert time.monotonic() - began >= 0.3
    assert node_state(plane, "cheap") is NodeState.PREEMPTED
    assert node_state(plane, "dear") is NodeState.READY
    assert events(plane, "nodes/cheap")[-2:] == ["preemption notice", "READY -> PREEMPTED"]
    with pytest.raises(ApiError, match="no more capacity"):
        create(plane, wait_until, "cheaper", **SPOT)


def test_a_queued_spot_slice_is_suspended_for_one_that_is_guaranteed(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    queue(plane, "cheap", "v4-256", spot={})
    wait_until(lambda: queued_state(plane, "cheap") is QueuedState.ACTIVE)
    queue(plane, "dear", guaranteed={})
    wait_until(lambda: queued_state(plane, "dear") is QueuedState.ACTIVE)
    wait_until(lambda: queued_state(plane, "cheap") is QueuedState.SUSPENDED)


def test_reserved_parts_are_for_reserved_slices(make: Make, wait_until: Wait) -> None:
    part = ReservedPart(reservation="team", box="4x4x4@0,0,0")
    plane = make(fleet(reserved=[part.model_dump()]))
    create(plane, wait_until, "a")
    with pytest.raises(ApiError, match="no more capacity"):
        create(plane, wait_until, "b")
    create(plane, wait_until, "b", **RESERVED)
    with pytest.raises(ApiError, match="Insufficient reserved capacity"):
        create(plane, wait_until, "c", **RESERVED)


def test_a_pod_under_maintenance_takes_no_slices(make: Make, wait_until: Wait) -> None:
    now = datetime.now(UTC)
    window = MaintenanceWindow(start=now - timedelta(hours=1), end=now + timedelta(hours=1))
    plane = make(fleet(maintenance=[window.model_dump()]))
    with pytest.raises(ApiError, match="no more capacity"):
        create(plane, wait_until, "a")
    assert plane.list_pods()[0].draining


def test_a_stopped_slice_gives_back_its_chips_and_looks_for_others(make: Make, wait_until: Wait) -> None:
    plane = make(fleet(shape="4x4x4"))
    create(plane, wait_until, "a", "v4-8")
    plane.act_on_node(P, Z, "a", "stop")
    wait_until(lambda: node_state(plane, "a") is NodeState.STOPPED)
    create(plane, wait_until, "b")
    plane.act_on_node(P, Z, "a", "start")
    wait_until(lambda: node_state(plane, "a") is NodeState.TERMINATED)
    assert "no more capacity" in (plane.get_node(P, Z, "a").health_description or "")
    delete(plane, "b")
    wait_until(lambda: plane.list_pods()[0].free == 64)
    plane.act_on_node(P, Z, "a", "start")
    wait_until(lambda: node_state(plane, "a") is NodeState.READY)


def test_a_create_that_waits_for_others_to_go_can_be_cancelled(make: Make, wait_until: Wait) -> None:
    file = fleet(shape="4x4x4")
    plane = make(file.model_copy(update={"grace_seconds": 60.0}))
    create(plane, wait_until, "cheap", **SPOT)
    operation = plane.create_node(P, Z, "new", spec()).name.rpartition("/")[2]
    wait_until(lambda: "preemption notice" in events(plane, "nodes/cheap"))
    plane.cancel_operation(P, Z, operation)
    wait_until(lambda: plane.get_operation(P, Z, operation).done)
    error = plane.get_operation(P, Z, operation).error
    assert error is not None
    assert error.code == 1


def test_a_simulated_placement_says_where_or_why_not(make: Make, wait_until: Wait) -> None:
    plane = make(fleet(shape="8x8x4"))
    assert plane.simulate_placement(Z, spec("v4-512")).parts[0].pod == "pod"
    for name in "abcd":
        create(plane, wait_until, name)
    found = plane.simulate_placement(Z, spec("v4-8"))
    assert found.parts == []
    assert (found.obstacles[0].free, found.obstacles[0].never) == (0, False)
    (pod,) = plane.list_pods()
    rows = pod.planes[0].split("\n")
    names = {one.letter: one.name for one in pod.slices}
    delete(plane, names[rows[0][0]])
    delete(plane, names[rows[4][4]])
    wait_until(lambda: plane.list_pods()[0].free == 128)
    assert plane.simulate_placement(Z, spec("v4-256")).parts[0].origin is None
    boxed = plane.simulate_placement(Z, spec("v4-256", labels={CONTIGUOUS: "true"}))
    assert boxed.parts == []
    assert len(boxed.obstacles[0].moves) == len(boxed.obstacles[0].in_the_way) == 1
    assert plane.simulate_placement(Z, spec("v4-4096")).obstacles[0].never


def test_what_is_wrong_of_a_request_for_a_simulation_is_said(make: Make) -> None:
    plane = make(fleet())
    with pytest.raises(ApiError, match="not from 1 to 64"):
        plane.simulate_placement(Z, spec(), 65)
    with pytest.raises(ApiError, match="there is no pod 'nothing'"):
        plane.get_pod("nothing")


def test_a_slice_with_a_failed_chip_is_repaired_with_spare_ones(
    make: Make, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = make(fleet(spare=["4x4x4@0,0,4"]))
    create(plane, wait_until, "a")
    (before,) = plane.list_pods()
    assert (before.spare, before.free) == (64, 0)
    said = {"faults": [{"part": "chip", "where": ["1,2,3"], "sliceIndex": 0}], "faultText": "chip 1,2,3 has failed"}
    monkeypatch.setattr("tpuctl.control.faults.inject", lambda *_: said)
    monkeypatch.setattr("tpuctl.control.nodes.telemetry.ask", lambda *_: said)
    plane.fault(P, Z, "a", FaultRequest(part="chip", where=["1,2,3"]))
    assert node_state(plane, "a") is NodeState.READY
    plane.repair(P, Z, "a")
    wait_until(lambda: "READY -> RESTARTING" in events(plane, "nodes/a"))
    wait_until(lambda: node_state(plane, "a") is NodeState.READY)
    wait_until(lambda: plane.list_pods()[0].broken == 1)
    (after,) = plane.list_pods()
    assert after.planes[3].split("\n")[2][1] == "#"
    assert (after.in_use, after.spare, after.free) == (64, 0, 63)
    with pytest.raises(ApiError, match="has no failed parts; nothing is to repair"):
        plane.repair(P, Z, "a")
    again = make(fleet(spare=["4x4x4@0,0,4"]))
    assert again.list_pods() == [after]


def test_a_slice_that_cannot_be_repaired_stays_until_it_can(
    make: Make, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = make(fleet(shape="4x4x4").model_copy(update={"repair_seconds": 0.0}))
    create(plane, wait_until, "a")
    said = {"faults": [{"part": "chip", "where": ["0,0,0"], "sliceIndex": 0}], "faultText": "chip 0,0,0 has failed"}
    monkeypatch.setattr("tpuctl.control.faults.inject", lambda *_: said)
    monkeypatch.setattr("tpuctl.control.nodes.telemetry.ask", lambda *_: said)
    plane.fault(P, Z, "a", FaultRequest(part="chip", where=["0,0,0"]))
    wait_until(lambda: "cannot be repaired" in events(plane, "nodes/a"))
    assert node_state(plane, "a") is NodeState.READY


def test_chips_of_pods_break_and_are_mended(make: Make, wait_until: Wait) -> None:
    plane = make(fleet())
    assert plane.set_pod_chip("pod", "0,0,0", broken=True).broken == 1
    wait_until(lambda: plane.list_pods()[0].broken == 1)
    with pytest.raises(ApiError, match="no more capacity"):
        create(plane, wait_until, "a", "v4-256")
    assert plane.set_pod_chip("pod", "0,0,0", broken=False).broken == 0
    wait_until(lambda: plane.list_pods()[0].broken == 0)
    create(plane, wait_until, "a", "v4-256")
    with pytest.raises(ApiError, match="is in slice a; break it there: tpuctl fault chip a"):
        plane.set_pod_chip("pod", "0,0,0", broken=True)
    with pytest.raises(ApiError, match="is no chip of a pod of 4x4x8"):
        plane.set_pod_chip("pod", "0,0,8", broken=True)
    with pytest.raises(ApiError, match="there is no pod 'other'"):
        plane.set_pod_chip("other", "0,0,0", broken=True)
