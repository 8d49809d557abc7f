"""Queued resources get their nodes when it is time, and say why if they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tpuctl.api.errors import AlreadyExists, ApiError, FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedResourceState, QueuedState
from tpuctl.control.plane import ControlPlane

P, Z = "local", "us-central2-b"
Wait = Callable[..., None]
NODE = {"acceleratorType": "v4-8", "runtimeVersion": "v2-alpha"}


def asked(node: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **more: Any) -> QueuedResource:
    one = {"node": NODE | (node or {}), **({"nodeId": "a"} if spec is None else spec)}
    return QueuedResource.model_validate({"tpu": {"nodeSpec": one}, **more})


def state(plane: ControlPlane, name: str = "q") -> QueuedResourceState:
    found = plane.get_queued(P, Z, name).state
    assert found is not None
    return found


def reaches(plane: ControlPlane, wait_until: Wait, wanted: QueuedState) -> QueuedResourceState:
    wait_until(lambda: state(plane).state is wanted)
    return state(plane)


def changes(plane: ControlPlane) -> list[str]:
    with plane.store.read() as reader:
        events = reader.events(f"projects/{P}/locations/{Z}/queuedResources/q")
    return [event.change.rpartition("-> ")[2] for event in events]


def test_a_queued_resource_becomes_a_node(plane: ControlPlane, wait_until: Wait) -> None:
    operation = plane.create_queued(P, Z, "q", asked(spot={}))
    wait_until(lambda: plane.get_operation(P, Z, operation.name.rpartition("/")[2]).done)
    reaches(plane, wait_until, QueuedState.ACTIVE)
    node = plane.get_node(P, Z, "a")
    assert (node.state, node.queued_resource) == (NodeState.READY, f"projects/{P}/locations/{Z}/queuedResources/q")
    assert node.scheduling_config is not None
    assert node.scheduling_config.spot
    assert changes(plane) == ["CREATING", "ACCEPTED", "PROVISIONING", "ACTIVE"]


def test_it_waits_for_its_time(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_queued(P, Z, "q", asked(queueingPolicy={"validAfterDuration": "0.7s"}))
    assert reaches(plane, wait_until, QueuedState.WAITING_FOR_RESOURCES).accepted_data is None
    with pytest.raises(NotFound):
        plane.get_node(P, Z, "a")
    reaches(plane, wait_until, QueuedState.ACTIVE)
    assert "WAITING_FOR_RESOURCES" in changes(plane)


def test_it_fails_when_its_time_is_over_and_can_be_reset(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_queued(P, Z, "q", asked(queueingPolicy={"validUntilDuration": "0s"}))
    failed = reaches(plane, wait_until, QueuedState.FAILED)
    assert failed.failed_data is not None
    assert failed.failed_data.error is not None
    assert failed.failed_data.error.code == 4
    assert plane.reset_queued(P, Z, "q").done
    wait_until(lambda: changes(plane)[-2:] == ["ACCEPTED", "FAILED"])
    plane.delete_queued(P, Z, "q")
    wait_until(lambda: plane.list_queued(P, Z) == [])


def test_it_fails_with_the_reason_why_its_node_did(
    plane: ControlPlane, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RUNTIME", "fail")
    plane.create_queued(P, Z, "q", asked())
    failed = reaches(plane, wait_until, QueuedState.FAILED).failed_data
    assert failed is not None
    assert failed.error is not None
    assert "no chips today" in failed.error.message
    assert plane.list_nodes(P, Z) == []


def test_it_is_suspended_with_its_node_and_comes_back(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_queued(P, Z, "q", asked())
    reaches(plane, wait_until, QueuedState.ACTIVE)
    with pytest.raises(FailedPrecondition, match="is ACTIVE and has nodes: delete them first, or delete it with force"):
        plane.delete_queued(P, Z, "q")
    plane.act_on_node(P, Z, "a", "delete")
    assert reaches(plane, wait_until, QueuedState.SUSPENDED).state_initiator == "USER"
    plane.reset_queued(P, Z, "q")
    reaches(plane, wait_until, QueuedState.ACTIVE)
    before = plane.get_node(P, Z, "a").id
    plane.reset_queued(P, Z, "q")  # of an active one: the node is made anew
    wait_until(lambda: state(plane).state is QueuedState.ACTIVE and plane.get_node(P, Z, "a").id != before)


def test_force_deletes_the_nodes_too(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_queued(P, Z, "q", asked(spec={"multisliceParams": {"nodeCount": 3}}))
    reaches(plane, wait_until, QueuedState.ACTIVE)
    assert [node.name.rpartition("/")[2] for node in plane.list_nodes(P, Z)] == ["q-0", "q-1", "q-2"]
    assert plane.get_slice(P, Z, "q-1").num_slices == 3
    first = plane.delete_queued(P, Z, "q", force=True, request_id="one")
    assert plane.delete_queued(P, Z, "q", force=True, request_id="one").name == first.name
    wait_until(lambda: plane.list_queued(P, Z) == [])
    assert plane.list_nodes(P, Z) == []


def test_one_that_waits_is_deleted_at_once(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_queued(P, Z, "q", asked(queueingPolicy={"validAfterDuration": "3600s"}))
    reaches(plane, wait_until, QueuedState.WAITING_FOR_RESOURCES)
    plane.delete_queued(P, Z, "q")
    wait_until(lambda: plane.list_queued(P, Z) == [])


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (QueuedResource(), "give one node spec, not 0"),
        (asked(spec={}), "give either nodeId"),
        (asked(spec={"nodeId": "a", "multisliceParams": {"nodeCount": 2}}), "give either nodeId"),
        (asked(spec={"multisliceParams": {"nodeCount": 1}}), "use a number from 2"),
        (asked(spec={"multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "A"}}), "node name 'A' is not valid"),
        (asked(spec={"nodeId": "a_b"}), "node name 'a_b' is not valid"),
        (asked(spec={"nodeId": "a", "parent": "projects/x/locations/y"}), "projects/x/locations/y is not"),
        (asked(spot={}, guaranteed={}), "give only one of best_effort, spot, guaranteed, not spot and guaranteed"),
        (asked(queueingPolicy={"validAfterDuration": "1s", "validUntilDuration": "2s"}), "give only one of valid_"),
        (
            asked(
                queueingPolicy={
                    "validInterval": {"startTime": "2030-01-01T00:00:00Z", "endTime": "2029-01-01T00:00:00Z"}
                }
            ),
            "ends before it starts",
        ),
        (asked(node={"acceleratorType": "v5p-8"}), "v5p-8 was not found in zone us-central2-b"),
    ],
)
def test_what_makes_no_sense_is_refused(plane: ControlPlane, wanted: QueuedResource, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        plane.create_queued(P, Z, "q", wanted)
    assert plane.list_queued(P, Z) == []


def test_slices_of_the_first_generations_are_not_joined(plane: ControlPlane) -> None:
    wanted = asked(node={"acceleratorType": "v3-8"}, spec={"multisliceParams": {"nodeCount": 2}})
    with pytest.raises(ApiError, match="Cloud TPU was unable to complete the operation"):
        plane.create_queued(P, "europe-west4-a", "q", wanted)


def test_names_that_are_taken_are_refused(plane: ControlPlane) -> None:
    later = {"validAfterDuration": "3600s"}
    plane.create_queued(P, Z, "q", asked(queueingPolicy=later))
    with pytest.raises(AlreadyExists, match="queuedResources/q' already exists"):
        plane.create_queued(P, Z, "q", asked(queueingPolicy=later))
    plane.create_node(P, Z, "q-1", NodeSpec(accelerator_type="v4-8"))
    with pytest.raises(AlreadyExists, match="nodes/q-1' already exists"):
        plane.create_queued(P, Z, "r", asked(spec={"multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "q"}}))


def test_pages_of_nodes_hold_what_was_asked_for(plane: ControlPlane, wait_until: Wait) -> None:
    plane.create_node(P, Z, "first", NodeSpec(accelerator_type="v4-8"))
    plane.create_queued(P, Z, "q", asked(spec={"multisliceParams": {"nodeCount": 3}}))
    reaches(plane, wait_until, QueuedState.ACTIVE)
    plane.create_node(P, Z, "last", NodeSpec(accelerator_type="v4-8"))
    pages, start = [], 0
    while start is not None:
        found, start = plane.page_of_nodes(P, Z, start, 2)
        pages.append([node["name"].rpartition("/")[2] for node in found])
    assert pages == [["first", "q-0"], ["q-1", "q-2"], ["last"]]
