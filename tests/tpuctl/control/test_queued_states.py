"""The states of queued resources follow from their nodes and the time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tpuctl.api.nodes import NodeState as N
from tpuctl.api.queued import QueuedState as Q
from tpuctl.api.queued import QueueingPolicy, StateInitiator
from tpuctl.control.queued_states import Window, initiator, next_state, window

ALWAYS = Window(0, float("inf"))


@pytest.mark.parametrize(
    ("state", "nodes", "when", "goes_to"),
    [
        (Q.CREATING, [], ALWAYS, Q.ACCEPTED),
        (Q.ACCEPTED, [], ALWAYS, Q.PROVISIONING),
        (Q.ACCEPTED, [N.DELETING], ALWAYS, None),
        (Q.ACCEPTED, [], Window(200, 300), Q.WAITING_FOR_RESOURCES),
        (Q.ACCEPTED, [], Window(0, 50), Q.FAILED),
        (Q.WAITING_FOR_RESOURCES, [], Window(200, 300), None),
        (Q.WAITING_FOR_RESOURCES, [], Window(100, 300), Q.PROVISIONING),
        (Q.WAITING_FOR_RESOURCES, [], Window(200, 100), Q.FAILED),
        (Q.PROVISIONING, [N.CREATING], ALWAYS, None),
        (Q.PROVISIONING, [N.READY, N.CREATING], ALWAYS, None),
        (Q.PROVISIONING, [N.READY, N.READY], ALWAYS, Q.ACTIVE),
        (Q.PROVISIONING, [N.READY], Window(0, 50), Q.ACTIVE),
        (Q.PROVISIONING, [], ALWAYS, Q.SUSPENDED),
        (Q.ACTIVE, [N.READY], ALWAYS, None),
        (Q.ACTIVE, [N.STOPPED], ALWAYS, None),
        (Q.ACTIVE, [N.DELETING], ALWAYS, Q.SUSPENDING),
        (Q.ACTIVE, [N.PREEMPTED], ALWAYS, Q.SUSPENDING),
        (Q.ACTIVE, [], ALWAYS, Q.SUSPENDED),
        (Q.SUSPENDING, [N.DELETING], ALWAYS, None),
        (Q.SUSPENDING, [N.PREEMPTED], ALWAYS, Q.SUSPENDED),
        (Q.SUSPENDING, [], ALWAYS, Q.SUSPENDED),
        (Q.SUSPENDED, [], ALWAYS, None),
        (Q.FAILED, [], ALWAYS, None),
    ],
)
def test_where_it_goes_next(state: Q, nodes: list[N], when: Window, goes_to: Q | None) -> None:
    assert next_state(state, nodes, when, now=100.0) is goes_to


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, ALWAYS),
        ({"validAfterDuration": "60s"}, Window(60, float("inf"))),
        ({"validUntilDuration": "1.5s"}, Window(0, 1.5)),
        ({"validUntilTime": "1970-01-01T00:01:00Z"}, Window(0, 60)),
        ({"validAfterTime": datetime.fromtimestamp(30, UTC)}, Window(30, float("inf"))),
        (
            {"validInterval": {"startTime": "1970-01-01T00:01:00Z", "endTime": "1970-01-01T00:02:00Z"}},
            Window(60, 120),
        ),
    ],
)
def test_when_nodes_may_be_made(policy: dict[str, Any] | None, expected: Window) -> None:
    assert window(None if policy is None else QueueingPolicy.model_validate(policy), 0.0) == expected


@pytest.mark.parametrize(
    ("state", "before", "nodes", "by"),
    [
        (Q.ACTIVE, "USER", [N.READY], StateInitiator.SERVICE),
        (Q.SUSPENDING, "SERVICE", [N.DELETING], StateInitiator.USER),
        (Q.SUSPENDING, "SERVICE", [N.PREEMPTED], StateInitiator.SERVICE),
        (Q.SUSPENDED, "SERVICE", [N.PREEMPTED], StateInitiator.SERVICE),
        (Q.SUSPENDED, "SERVICE", [], StateInitiator.USER),
    ],
)
def test_who_is_the_cause(state: Q, before: str, nodes: list[N], by: StateInitiator) -> None:
    assert initiator(state, before, nodes) is by
