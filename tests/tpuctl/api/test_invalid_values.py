"""A field of the wrong type is refused as Google's JSON parser refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.nodes import Node
from tpuctl.api.queued import QueuedResource
from tpuctl.server.versions import read

GOOGLE = "type.googleapis.com/google"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"acceleratorType": 3}, "Invalid value at 'node.accelerator_type' (TYPE_STRING), 3"),
        ({"labels": {"a": 1}}, "Invalid value at 'node.labels['a']' (TYPE_STRING), 1"),
        ({"labels": "x"}, "Invalid value at 'node.labels' (Map), \"x\""),
        (
            {"description": {}},
            "Invalid value at 'node.description' (TYPE_STRING), Starting an object on a scalar field",
        ),
        (
            {"networkConfig": {"enableExternalIps": "perhaps"}},
            "Invalid value at 'node.network_config.enable_external_ips' (TYPE_BOOL), \"perhaps\"",
        ),
        (
            {"dataDisks": [{"mode": "WRITE"}]},
            f"Invalid value at 'node.data_disks[0].mode' ({GOOGLE}.cloud.tpu.v2.DiskMode), \"WRITE\"",
        ),
        (
            {"schedulingConfig": 1},
            f"Invalid value at 'node.scheduling_config' ({GOOGLE}.cloud.tpu.v2.SchedulingConfig), 1",
        ),
        (
            {"description": ["x"]},
            "Invalid JSON payload received. Unknown name \"description\" at 'node': Proto field is not repeating, "
            "cannot start list.",
        ),
        ([], 'Invalid JSON payload received. Unknown name "": Root element must be a message.'),
        (
            {"createTime": "today"},
            f"Invalid value at 'node.create_time' ({GOOGLE}.protobuf.Timestamp), Field 'createTime', Illegal timestamp "
            "format; timestamps must end with 'Z' or have a valid timezone offset.",
        ),
    ],
)
def test_the_text_names_the_field_and_its_type(body: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(body, Node, "v2", "node")
    assert refused.value.message == text
    (violation,) = refused.value.details[0]["fieldViolations"]
    assert violation["description"] == text


def test_durations_end_with_an_s() -> None:
    body = {"queueingPolicy": {"validUntilDuration": "1h"}}
    with pytest.raises(InvalidArgument, match="Illegal duration format; duration must end with 's'"):
        read(body, QueuedResource, "v2", "queued_resource")
