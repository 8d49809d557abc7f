"""Resources read and write JSON as Cloud TPU's clients expect."""

from __future__ import annotations

import math

import pytest

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.jobs import JobChanged, LogRecord, MetricsLogged, parse_event
from tpuctl.api.names import check_id, check_project
from tpuctl.api.nodes import DiskMode, GenerationType, Node, NodeState
from tpuctl.api.operations import Operation


def test_bodies_may_use_snake_case() -> None:
    node = Node.model_validate({"accelerator_type": "v3-8", "network_config": {"enable_external_ips": True}})
    assert node.to_json() == {
        "acceleratorType": "v3-8",
        "networkConfig": {"enableExternalIps": True},
        "name": "",
        "state": "STATE_UNSPECIFIED",
    }


@pytest.mark.parametrize("given", ["V3", 3, "3"])
def test_enums_are_read_by_name_and_by_number(given: object) -> None:
    node = Node.model_validate({"acceleratorConfig": {"type": given, "topology": "2x2"}})
    assert node.accelerator_config is not None
    assert node.accelerator_config.type is GenerationType.V3


def test_a_bare_object_counts_as_a_list_of_one() -> None:
    node = Node.model_validate({"dataDisks": {"sourceDisk": "d", "mode": 2}})
    assert node.data_disks is not None
    assert [disk.mode for disk in node.data_disks] == [DiskMode.READ_ONLY]


def test_unknown_fields_are_ignored() -> None:
    assert Node.model_validate({"state": "READY", "bootDisk": {"x": 1}}).state is NodeState.READY


def test_a_running_operation_says_that_it_is_not_done() -> None:
    written = Operation(name="projects/p/locations/z/operations/o").to_json()
    assert written["done"] is False
    assert written["metadata"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.OperationMetadata"
    assert "error" not in written
    assert "response" not in written


def test_not_a_number_survives_as_text() -> None:
    sent = MetricsLogged(values={"loss": math.nan, "best": math.inf}).to_bytes()
    assert sent == b'{"type":"metrics","attempt":1,"values":{"loss":"NaN","best":"Infinity"}}'
    received = MetricsLogged.model_validate_json(sent)
    assert math.isnan(received.values["loss"])


def test_events_are_told_apart_by_their_type() -> None:
    event = parse_event({"type": "log", "offset": 9, "stream": "stdout", "time": 1.5, "text": "hello\n"})
    assert event == LogRecord(offset=9, stream="stdout", time=1.5, text="hello\n")
    assert not isinstance(event, JobChanged)


@pytest.mark.parametrize("name", ["a", "my-slice", "x" * 63, "v3-8"])
def test_good_ids_are_accepted(name: str) -> None:
    assert check_id("node", name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "a-", "x" * 64, "a/b", "a\n", "ä", "../x"])
def test_bad_ids_are_refused_with_the_rule(name: str) -> None:
    with pytest.raises(InvalidArgument, match="lower-case letters, digits and hyphens"):
        check_id("node", name)


@pytest.mark.parametrize("project", ["", "a/b", "Local", "-x"])
def test_bad_projects_are_refused(project: str) -> None:
    with pytest.raises(InvalidArgument):
        check_project(project)
