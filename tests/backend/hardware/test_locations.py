"""Devices as JAX sees them on Cloud TPU: ids, coordinates, hosts and order."""

from __future__ import annotations

from collections import Counter

import pytest

from backend.hardware import AcceleratorType, accelerator_type, core_locations, device_order
from backend.hardware.locations import host_tile

SOME = ["v2-8", "v3-32", "v3-128", "v4-8", "v4-128", "v5litepod-8", "v5litepod-32", "v6e-1", "v6e-256", "tpu7x-32"]


@pytest.mark.parametrize("kind", [accelerator_type(name) for name in SOME], ids=lambda kind: kind.name)
def test_ids_are_places_and_every_host_has_its_tile_of_chips(kind: AcceleratorType) -> None:
    places = core_locations(kind)
    assert [place.id for place in places] == list(range(kind.num_devices))
    held = Counter(place.process_index for place in places)
    assert held == dict.fromkeys(range(kind.num_hosts), kind.devices_per_host)
    for host in range(kind.num_hosts):
        coords = [place.coords for place in places if place.process_index == host]
        assert tuple(max(axis) - min(axis) + 1 for axis in zip(*coords, strict=True)) == host_tile(kind)


def test_cores_of_a_chip_are_neighbours_by_id() -> None:
    places = core_locations(accelerator_type("v3-8"))
    assert [(place.id, place.coords, place.core_on_chip) for place in places[:4]] == [
        (0, (0, 0, 0), 0),
        (1, (0, 0, 0), 1),
        (2, (1, 0, 0), 0),
        (3, (1, 0, 0), 1),
    ]
    assert places[-1].coords == (1, 1, 0)


def test_devices_come_host_by_host_so_that_ids_are_not_in_order() -> None:
    ordered = device_order(core_locations(accelerator_type("v3-32")))
    assert [place.id for place in ordered[:16]] == [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]
    assert [place.process_index for place in ordered] == sorted(place.process_index for place in ordered)


def test_a_v4_32_lists_its_devices_as_cloud_tpu_does() -> None:
    ordered = device_order(core_locations(accelerator_type("v4-32")))
    assert [(place.id, place.coords, place.process_index) for place in ordered[3:6]] == [
        (3, (1, 1, 0), 0),
        (4, (0, 0, 1), 1),
        (5, (1, 0, 1), 1),
    ]


def test_a_v5e_host_of_eight_chips_is_two_wide_and_four_long() -> None:
    places = core_locations(accelerator_type("v5litepod-8"))
    assert [place.coords[:2] for place in places] == [(x, y) for y in range(4) for x in range(2)]
    assert {place.process_index for place in places} == {0}


def test_slices_count_on_where_the_one_before_ends() -> None:
    places = core_locations(accelerator_type("v4-16"), slices=2)
    assert [place.id for place in places] == list(range(16))
    assert [(place.slice_index, place.process_index, place.coords) for place in places[7:9]] == [
        (0, 1, (1, 1, 1)),
        (1, 2, (0, 0, 0)),
    ]


def test_a_device_s_memory_has_its_name() -> None:
    assert core_locations(accelerator_type("v3-8"))[3].hbm_name == "1x0x0_HBM1"
