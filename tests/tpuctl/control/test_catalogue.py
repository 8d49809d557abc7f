"""What each zone offers, and what is said of what it doesn't."""

from __future__ import annotations

import pytest

from backend.hardware import accelerator_type
from tpuctl.api.errors import InvalidArgument, NotFound, PermissionDenied
from tpuctl.api.nodes import AcceleratorConfig, GenerationType, NodeSpec
from tpuctl.control import catalogue


def by_topology(wire: GenerationType, topology: str) -> NodeSpec:
    return NodeSpec(accelerator_config=AcceleratorConfig(type=wire, topology=topology))


@pytest.mark.parametrize(
    ("name", "zones"),
    [
        ("v2-8", ["asia-east1-c", "europe-west4-a", "us-central1-b", "us-central1-c", "us-central1-f"]),
        ("v2-32", ["europe-west4-a", "us-central1-a"]),
        ("v3-2048", ["europe-west4-a", "us-east1-d"]),
        ("v4-8", ["us-central2-b"]),
        ("v5p-128", ["europe-west4-b", "us-central1-a", "us-east5-a"]),
        ("tpu7x-8", ["us-central1-ai1a", "us-central1-c"]),
    ],
)
def test_where_a_type_is_offered(name, zones):
    assert catalogue.zones_of(accelerator_type(name)) == zones


def test_pods_and_single_hosts_of_v3_are_offered_in_different_zones():
    found = {row.type for row in catalogue.accelerator_types("local", "us-central1-a")}
    assert {"v3-8", "v2-32", "v5litepod-8", "v5p-8"} <= found
    assert not {"v2-8", "v3-32", "v4-8"} & found


def test_the_types_of_all_zones_are_listed_once():
    names = [row.type for row in catalogue.accelerator_types("local", "-")]
    assert len(names) == len(set(names)) > 200


def test_a_type_has_the_config_that_asks_for_it():
    row = catalogue.one_accelerator_type("local", "us-central2-b", "v4-256")
    assert [(config.type, config.topology) for config in row.accelerator_configs] == [(GenerationType.V4, "4x4x8")]
    assert catalogue.one_accelerator_type("local", "us-central1-c", "tpu7x-8").accelerator_configs == []
    with pytest.raises(NotFound):
        catalogue.one_accelerator_type("local", "europe-west4-a", "v4-256")


@pytest.mark.parametrize(
    ("wire", "topology", "zone", "name"),
    [
        (GenerationType.V4, "4x4x8", "us-central2-b", "v4-256"),
        (GenerationType.V4, "4x4x16", "us-central2-b", "v4-512"),
        (GenerationType.V5LITE_POD, "4x4", "us-west4-a", "v5litepod-16"),
        (GenerationType.V5P, "4x8x8_untwisted", "us-east5-a", "v5p-512"),
        (GenerationType.V3, "4x4", "europe-west4-a", "v3-32"),
    ],
)
def test_a_slice_is_asked_for_by_its_topology(wire, topology, zone, name):
    found = catalogue.check_type(zone, by_topology(wire, topology))
    assert (found.name, found.topology) == (name, topology)


def test_an_invalid_topology_is_told_in_cloud_tpu_s_words_with_the_nearest_valid_one():
    with pytest.raises(InvalidArgument) as caught:
        catalogue.check_type("us-central2-b", by_topology(GenerationType.V4, "2x4x2"))
    assert (
        'Cloud TPU received a bad request. Invalid AcceleratorConfig: type:V4 topology:"2x4x2"' in caught.value.message
    )
    assert caught.value.message.endswith("use 2x2x4")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            NodeSpec(accelerator_type="v4-8"),
            "the accelerator v4-8 was not found in zone europe-west4-a; .*us-central2-b",
        ),
        (NodeSpec(accelerator_type="v9-8"), "is not an accelerator type"),
        (NodeSpec(), "acceleratorType is required"),
        (by_topology(GenerationType.TYPE_UNSPECIFIED, "2x2"), "needs a type, one of V2, V3, V4"),
    ],
)
def test_what_a_zone_does_not_offer_is_refused(spec, message):
    with pytest.raises(InvalidArgument, match=message):
        catalogue.check_type("europe-west4-a", spec)


def test_a_zone_that_there_is_not_is_refused():
    with pytest.raises(PermissionDenied, match="Location mars-a is not found"):
        catalogue.accelerator_types("local", "mars-a")
