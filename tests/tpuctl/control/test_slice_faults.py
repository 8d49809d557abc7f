"""Faults as the control plane tells them: in the node's health."""

from __future__ import annotations

import pytest

from backend import errors
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, Unavailable
from tpuctl.api.home import Home
from tpuctl.api.nodes import NodeHealth, NodeSpec, NodeState
from tpuctl.api.status import FaultRequest
from tpuctl.control import faults
from tpuctl.control.node_states import health_of
from tpuctl.store import NodeRow


def node(state: NodeState) -> NodeRow:
    return NodeRow("ab", "local", "europe-west4-a", "a", "v3-8", state, "127.84.0.1", 8470, 0.0)


@pytest.mark.parametrize(
    ("state", "description", "health"),
    [
        (NodeState.READY, None, NodeHealth.HEALTHY),
        (NodeState.READY, "chip (0,0,0) has failed", NodeHealth.UNHEALTHY_MAINTENANCE),
        (NodeState.REPAIRING, "its runtime ended", NodeHealth.TIMEOUT),
        (NodeState.CREATING, None, None),
    ],
)
def test_a_slice_with_failed_parts_is_unhealthy(state, description, health):
    assert health_of(state, description) is health


@pytest.mark.parametrize("state", [NodeState.CREATING, NodeState.STOPPED])
def test_only_a_running_slice_can_have_faults(state, tmp_path):
    with pytest.raises(FailedPrecondition, match=f"slice a is {state}"):
        faults.inject(Home(tmp_path), node(state), FaultRequest(part="chip", where=["0,0"]))


def test_a_runtime_that_does_not_answer_is_told(tmp_path):
    with pytest.raises(Unavailable, match="slice a does not answer"):
        faults.inject(Home(tmp_path), node(NodeState.READY), FaultRequest(part="chip", where=["0,0"]))


def test_what_the_runtime_refuses_is_an_invalid_argument(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise errors.InvalidArgument("no such chip")

    monkeypatch.setattr(faults, "fault", refuse)
    with pytest.raises(InvalidArgument, match="no such chip"):
        faults.inject(Home(tmp_path), node(NodeState.READY), FaultRequest(part="chip", where=["9,9"]))


def test_a_fault_shows_in_the_node_until_it_recovers(plane, wait_until, monkeypatch):
    plane.create_node("local", "europe-west4-a", "a", NodeSpec(accelerator_type="v3-8"))
    wait_until(lambda: plane.get_node("local", "europe-west4-a", "a").state is NodeState.READY)
    for text in ("chip (0,0,0) has failed", None):
        said = {"faultText": text, "faults": [{"part": "chip", "where": ["0,0,0"]}] if text else []}
        monkeypatch.setattr(faults, "fault", lambda *_, said=said, **__: said)
        shown = plane.fault("local", "europe-west4-a", "a", FaultRequest(part="chip", where=["0,0"], recover=not text))
        found = plane.get_node("local", "europe-west4-a", "a")
        assert found.health_description == shown.health_description == text
        assert found.health == shown.health == (NodeHealth.UNHEALTHY_MAINTENANCE if text else NodeHealth.HEALTHY)
        assert [fault.where for fault in shown.faults] == ([["0,0,0"]] if text else [])
