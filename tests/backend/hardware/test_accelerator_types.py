"""Accelerator types: what a name counts, topologies, hosts, wrap rules, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from backend.hardware import (
    ACCELERATOR_TYPES,
    InvalidTopology,
    UnknownAcceleratorType,
    accelerator_type,
    pod_type,
    slice_of,
)


@pytest.mark.parametrize("name", ACCELERATOR_TYPES)
def test_the_number_in_a_name_counts_cores_or_chips_as_the_generation_does(name: str) -> None:
    kind = accelerator_type(name)
    number = int(name.split("-")[1])
    assert number == (kind.num_chips if name.startswith(("v5litepod", "v6e")) else kind.num_cores)
    assert kind.num_hosts * kind.chips_per_host == kind.num_chips
    assert kind.num_hosts * kind.devices_per_host == kind.num_devices


@pytest.mark.parametrize(
    ("name", "topology", "chips", "devices", "hosts"),
    [
        ("v2-8", "2x2", 4, 8, 1),
        ("v2-512", "16x16", 256, 512, 64),
        ("v3-32", "4x4", 16, 32, 4),
        ("v3-1024", "16x32", 512, 1024, 128),
        ("v3-2048", "32x32", 1024, 2048, 256),
        ("v4-8", "2x2x1", 4, 4, 1),
        ("v4-1536", "8x8x12", 768, 768, 192),
        ("v4-4096", "8x16x16", 2048, 2048, 512),
        ("v5litepod-1", "1x1", 1, 1, 1),
        ("v5litepod-8", "2x4", 8, 8, 1),
        ("v5litepod-16", "4x4", 16, 16, 4),
        ("v5litepod-256", "16x16", 256, 256, 64),
        ("v5p-12288", "16x16x24", 6144, 6144, 1536),
        ("v6e-4", "2x2", 4, 4, 1),
        ("v6e-8", "2x4", 8, 8, 1),
        ("v6e-64", "8x8", 64, 64, 16),
        ("tpu7x-8", "2x2x1", 4, 8, 1),
        ("tpu7x-18432", "16x24x24", 9216, 18432, 2304),
    ],
)
def test_published_types(name: str, topology: str, chips: int, devices: int, hosts: int) -> None:
    kind = accelerator_type(name)
    assert (kind.topology, kind.num_chips, kind.num_devices, kind.num_hosts) == (topology, chips, devices, hosts)


def test_v5e_is_another_word_for_v5litepod() -> None:
    assert accelerator_type("v5e-16") is accelerator_type("v5litepod-16")


@pytest.mark.parametrize(
    ("generation", "topology", "name"),
    [
        ("v4", "4x4x8", "v4-256"),
        ("v4", "4x4x16", "v4-512"),
        ("v4", "4x16x16", "v4-2048"),
        ("v5e", "4x8", "v5litepod-32"),
        ("v5p", "4x4x256", "v5p-8192"),
        ("7x", "8x8x8", "tpu7x-1024"),
        ("tpu7x", "2x2x2", "tpu7x-16"),
    ],
)
def test_a_slice_can_be_asked_for_by_its_shape(generation: str, topology: str, name: str) -> None:
    kind = slice_of(generation, topology)
    assert (kind.name, kind.topology) == (name, topology)
    assert accelerator_type(name, topology) == kind


@pytest.mark.parametrize(
    ("generation", "topology", "instead"),
    [
        ("v4", "2x4x2", "use 2x2x4$"),
        ("v4", "8x4x4", "use 4x4x8$"),
        ("v4", "16x16x32", "use 8x16x32 or 16x16x16 or"),
        ("v4", "4x4", "use 2x2x4 or"),
        ("v4", "4x4x4x4", "write chips along each axis, such as 4x4 or 4x4x8; use"),
        ("v4", "", "write chips along each axis"),
        ("v3", "4x5", "it has 2x2, 4x4, .*; use 4x4 or"),
        ("v5e", "8x4", "use 4x8$"),
        ("v5e", "32x32", "use 16x16 or"),
        ("v6e", "2x2x1", "use 2x2$"),
        ("v4", "0x1x1", "use 2x2x1 or"),
    ],
)
def test_an_invalid_topology_names_the_nearest_valid_ones(generation: str, topology: str, instead: str) -> None:
    with pytest.raises(InvalidTopology, match=instead):
        slice_of(generation, topology)


def test_a_topology_of_another_size_than_the_name_says_is_refused() -> None:
    with pytest.raises(InvalidTopology, match="it makes v4-32, not v4-16; use 2x2x2"):
        accelerator_type("v4-16", "2x2x4")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v3_8", r"Did you mean v3-8\? Valid types: v3-8, v3-32"),
        ("v5e-7", r"Did you mean v5e-8\? Valid types: v5litepod-1, v5litepod-4"),
        ("v3-16", r"Did you mean v3-(8|32)\?"),
        ("v3-4096", r"Did you mean v3-2048\?"),
        ("v4-0", r"Did you mean v4-8\?"),
        ("v4", r"Did you mean v4-8\?"),
        ("v5p", r"v5p-1024 and \d+ more; see tpuctl list types"),
        ("gpu", "Valid types: those of v2, v3, v4, v5litepod, v5p, v6e, tpu7x; see tpuctl list types"),
    ],
)
def test_an_unknown_type_is_answered_with_the_nearest_and_the_valid_ones(name: str, message: str) -> None:
    with pytest.raises(UnknownAcceleratorType, match=message):
        accelerator_type(name)


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("v2-8", (False, False)),
        ("v2-256", (False, True)),
        ("v2-512", (True, True)),
        ("v3-512", (False, False)),
        ("v3-1024", (False, True)),
        ("v3-2048", (True, True)),
        ("v4-8", (False, False, False)),
        ("v4-64", (False, False, False)),
        ("v4-128", (True, True, True)),
        ("v4-1536", (True, True, True)),
        ("v5litepod-64", (False, False)),
        ("v5litepod-128", (False, True)),
        ("v5litepod-256", (True, True)),
        ("v6e-128", (False, True)),
        ("v5p-32", (False, False, False)),
        ("v5p-17920", (True, True, True)),
        ("tpu7x-128", (True, True, True)),
    ],
)
def test_which_axes_wrap(name: str, wrap: tuple[bool, ...]) -> None:
    assert accelerator_type(name).wrap == wrap


@pytest.mark.parametrize(("name", "topology"), [("v4-256", "4x4x8"), ("v4-512", "4x8x8"), ("v5p-2048", "8x8x16")])
def test_a_torus_that_may_be_twisted_is_unless_asked_otherwise(name: str, topology: str) -> None:
    plain = accelerator_type(name, f"{topology}_untwisted")
    assert accelerator_type(name).twisted
    assert not plain.twisted
    assert plain.topology == f"{topology}_untwisted"
    assert plain.shape == accelerator_type(name).shape
    assert accelerator_type(name, f"{topology}_twisted") == accelerator_type(name)
    assert accelerator_type(name, plain.topology) == plain


@pytest.mark.parametrize(
    ("generation", "topology"), [("v4", "4x4x4"), ("v4", "4x4x12"), ("7x", "4x4x8"), ("v4", "2x2x4")]
)
def test_other_shapes_and_generations_have_no_twist(generation: str, topology: str) -> None:
    with pytest.raises(InvalidTopology, match=f"may be twisted; use {topology}"):
        slice_of(generation, f"{topology}_twisted")


def test_the_largest_v4_slice_is_the_pod() -> None:
    assert pod_type("v4") == accelerator_type("v4-8192")
