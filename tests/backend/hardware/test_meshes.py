"""JAX lays its meshes out over our devices as over Cloud TPU's: mesh_utils finds the rings and boxes it looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from backend.hardware import AcceleratorType, accelerator_type, core_locations, device_order, slice_of

mesh_utils = pytest.importorskip("jax.experimental.mesh_utils")


@dataclass(frozen=True)
class StandIn:
    """What mesh_utils reads of a JAX device."""

    id: int
    platform: str
    device_kind: str
    process_index: int
    coords: tuple[int, int, int]
    core_on_chip: int
    slice_index: int


def devices(kind: AcceleratorType, slices: int = 1) -> list[StandIn]:
    return [
        StandIn(
            place.id,
            "tpu",
            kind.generation.device_kind,
            place.process_index,
            place.coords,
            place.core_on_chip,
            place.slice_index,
        )
        for place in device_order(core_locations(kind, slices))
    ]


def ids(mesh: np.ndarray[Any, Any]) -> list[Any]:
    return np.vectorize(lambda device: device.id)(mesh).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("v3-8", (8,), [0, 1, 2, 3, 6, 7, 4, 5]),
        ("v3-8", (2, 4), [[0, 1, 2, 3], [6, 7, 4, 5]]),
        (
            "v3-32",
            (4, 8),
            [
                [0, 1, 2, 3, 10, 11, 8, 9],
                [4, 5, 6, 7, 14, 15, 12, 13],
                [16, 17, 18, 19, 26, 27, 24, 25],
                [20, 21, 22, 23, 30, 31, 28, 29],
            ],
        ),
        ("v5litepod-4", (4,), [0, 1, 3, 2]),
        ("v5litepod-8", (8,), [0, 1, 2, 3, 7, 6, 5, 4]),
        ("v6e-16", (16,), [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]),
        ("v5p-16", (8,), [0, 1, 3, 2, 6, 7, 5, 4]),
        ("tpu7x-8", (2, 1, 4), [[[0, 1, 2, 3]], [[6, 7, 4, 5]]]),
        ("tpu7x-16", (2, 8), [[0, 1, 2, 3, 6, 7, 4, 5], [8, 9, 10, 11, 14, 15, 12, 13]]),
    ],
)
def test_a_mesh_follows_the_rings_of_the_trays(name: str, shape: tuple[int, ...], expected: list[Any]) -> None:
    mesh = mesh_utils.create_device_mesh(shape, devices(accelerator_type(name)))
    assert ids(mesh) == expected


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [
        ("v4-128", (16, 4), [(0, 1), (2,)]),
        ("v4-256", (16, 8), [(0, 1), (2,)]),
        ("v4-512", (4, 8, 8), [(0,), (1,), (2,)]),
        ("v4-32", (4, 4), [(2,), (0, 1)]),
        ("v5litepod-64", (8, 8), [(0,), (1,)]),
    ],
)
def test_a_mesh_axis_is_made_of_whole_axes_of_the_torus(
    name: str, shape: tuple[int, ...], axes: list[tuple[int, ...]]
) -> None:
    kind = accelerator_type(name)
    mesh = mesh_utils.create_device_mesh(shape, devices(kind))
    for number, along in enumerate(axes):
        line = np.moveaxis(mesh, number, 0).reshape(shape[number], -1)[:, 0]
        varied = {axis for axis in range(3) if len({device.coords[axis] for device in line}) > 1}
        assert len(varied) == len(along)
        assert np.prod([kind.shape[axis] for axis in varied]) == shape[number]


def test_contiguous_submeshes_are_the_hosts_own_chips() -> None:
    mesh = mesh_utils.create_device_mesh((16, 4), devices(slice_of("v4", "4x4x4")), contiguous_submeshes=True)
    for host in range(16):
        rows, columns = np.where(np.vectorize(lambda device: device.process_index == host)(mesh))  # noqa: B023
        assert (np.ptp(rows) + 1) * (np.ptp(columns) + 1) == 4


def test_a_hybrid_mesh_has_one_slice_at_each_place_of_the_outer_network() -> None:
    mesh = mesh_utils.create_hybrid_device_mesh((1, 16, 4), (2, 1, 1), devices(accelerator_type("v4-128"), slices=2))
    assert mesh.shape == (2, 16, 4)
    assert [{device.slice_index for device in part.flat} for part in mesh] == [{0}, {1}]
