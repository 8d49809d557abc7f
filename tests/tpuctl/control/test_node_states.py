"""The table of slices' states says what to do in every situation."""

from __future__ import annotations

import itertools

import pytest

from backend.host.executor import RuntimeState
from tpuctl.api.nodes import NodeState
from tpuctl.control.node_states import SETTLED_STATE, VERBS, NodeAction, is_settled, next_action

STATES = VERBS["delete"].keys() | {NodeState.DELETING}


@pytest.mark.parametrize(("state", "runtime"), [*itertools.product(sorted(STATES), RuntimeState)])
def test_every_situation_has_an_action(state: NodeState, runtime: RuntimeState) -> None:
    action = next_action(state, runtime)
    if action is NodeAction.SETTLE:
        assert state in SETTLED_STATE


@pytest.mark.parametrize("state", sorted(SETTLED_STATE))
def test_every_state_under_way_can_settle(state: NodeState) -> None:
    assert NodeAction.SETTLE in {next_action(state, runtime) for runtime in RuntimeState}
    assert not is_settled(state)


@pytest.mark.parametrize("state", [NodeState.STOPPED, NodeState.TERMINATED, NodeState.DELETING, NodeState.STOPPING])
def test_no_runtime_is_left_where_none_should_be(state: NodeState) -> None:
    assert next_action(state, RuntimeState.READY) is NodeAction.STOP
    assert next_action(state, RuntimeState.STARTING) is NodeAction.STOP


@pytest.mark.parametrize("state", sorted(STATES))
def test_a_living_runtime_is_never_started_again(state: NodeState) -> None:
    for runtime in (RuntimeState.STARTING, RuntimeState.READY):
        assert next_action(state, runtime) is not NodeAction.START


def test_any_slice_can_be_deleted_but_one_being_deleted() -> None:
    assert VERBS["delete"].keys() == STATES - {NodeState.DELETING}
