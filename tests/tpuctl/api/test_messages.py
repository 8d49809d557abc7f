"""Each version of the API has its own fields; others are refused, and never sent."""

from __future__ import annotations

from typing import Any

import pytest

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.legacy import LegacyNode, from_legacy, to_legacy
from tpuctl.api.messages import check, fields, prune, without_nulls
from tpuctl.api.nodes import Node
from tpuctl.api.queued import QueuedResource, QueueingPolicy


@pytest.mark.parametrize(
    ("value", "version", "where"),
    [
        ({"x": 1}, "v2", "queued_resource"),
        ({"bestEffort": {}}, "v2", "queued_resource"),
        ({"tpu": {"nodeSpec": [{"node": {"x": 1}}]}}, "v2", "queued_resource.tpu.node_spec[0].node"),
        ({"tpu": {"node_spec": {"multi_node_params": {}}}}, "v2", "queued_resource.tpu.node_spec"),
        ({"tpu": {"nodeSpec": {"multisliceParams": {}}}}, "v2alpha1", "queued_resource.tpu.node_spec"),
    ],
)
def test_fields_that_a_version_does_not_have_are_refused(value: Any, version: str, where: str) -> None:
    with pytest.raises(InvalidArgument, match="Cannot find field") as refused:
        check(value, QueuedResource, version, "queued_resource")
    assert refused.value.details[0]["fieldViolations"][0]["field"] == where


@pytest.mark.parametrize("value", [[], 3, "x", {"labels": {"anything": "goes"}}, {"network_config": {"queueCount": 1}}])
def test_all_else_is_left_to_the_types(value: Any) -> None:
    check(value, Node, "v2", "node")


def test_a_field_of_another_version_is_dropped_wherever_it_is() -> None:
    disk = {"sourceDisk": "d", "workerIds": ["0"]}
    value = {"dataDisks": [disk], "autocheckpointEnabled": True, "labels": {"workerIds": "x"}}
    assert prune(value, Node, "v2") == {"dataDisks": [{"sourceDisk": "d"}], "labels": {"workerIds": "x"}}
    assert prune(value, Node, "v2alpha1") == value


def test_nulls_are_fields_that_are_not_there() -> None:
    assert without_nulls({"a": None, "b": [{"c": None, "d": 0}]}) == {"b": [{"d": 0}]}


def test_the_first_version_keeps_what_it_can_say() -> None:
    node = LegacyNode(
        acceleratorType="v2-8", tensorflowVersion="2.12.0", network="n", schedulingConfig={"reserved": True}
    )
    again = to_legacy(Node.model_validate(from_legacy(node).to_json()))
    assert again == node
    assert "serviceAccount" in fields(LegacyNode, "v1")


@pytest.mark.parametrize("text", ["1", "1m", "-1s", "s", "1.s", "1.0000000001s", "infs", "1s "])
def test_durations_are_seconds(text: str) -> None:
    with pytest.raises(ValueError, match="validAfterDuration"):
        QueueingPolicy.model_validate({"validAfterDuration": text})


@pytest.mark.parametrize(("given", "kept"), [(12, "12"), ("12", "12")])
def test_long_numbers_may_be_text(given: object, kept: str) -> None:
    assert Node.model_validate({"id": given}).id == kept
