"""Where is each device that JAX sees? Coordinates, ids, hosts and their order, as on Cloud TPU.

Ids count cores of a chip, then chips along x, y, z of the whole slice. jax.devices() has them host by host, and hosts
count along x, y, z too; so on a slice wider than a host the ids of jax.devices() are not in order
(jax-ml/jax, tests/mesh_utils_test.py: mock_tpu_devices, "reproduction of jax.devices() output"). jaxlib
lists devices by process, then by id: where one process drives the chips of several hosts, jax.devices() is in the order
of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.hardware.accelerator_types import AcceleratorType
from backend.hardware.torus import Coords, shape_3d


@dataclass(frozen=True)
class CoreLocation:
    """One device: ``id`` is JAX's device id, ``coords`` its chip's (x, y, z) on the torus of slice ``slice_index``.

    ``process_index`` is the index of its host over all slices.
    """

    id: int
    coords: Coords
    core_on_chip: int
    process_index: int
    slice_index: int = 0

    @property
    def hbm_name(self) -> str:
        """The device's memory as the TPU runtime's errors name it: 0x0x0_HBM0."""
        return f"{'x'.join(map(str, self.coords))}_HBM{self.core_on_chip}"


def core_locations(kind: AcceleratorType, slices: int = 1) -> list[CoreLocation]:
    """Every device of ``slices`` equal slices, by id: the device of id i is at place i."""
    cores, shape, tile = kind.generation.devices_per_chip, shape_3d(kind), host_tile(kind)
    hosts_x, hosts_y, _ = (size // side for size, side in zip(shape, tile, strict=True))
    one_slice = []
    for chip in range(kind.num_chips):
        coords = (chip % shape[0], chip // shape[0] % shape[1], chip // (shape[0] * shape[1]))
        host = coords[0] // tile[0] + hosts_x * (coords[1] // tile[1] + hosts_y * (coords[2] // tile[2]))
        one_slice += [(coords, core, host) for core in range(cores)]
    count, hosts = len(one_slice), kind.num_hosts
    return [
        CoreLocation(index * count + number, coords, core, index * hosts + host, index)
        for index in range(slices)
        for number, (coords, core, host) in enumerate(one_slice)
    ]


def device_order(locations: Iterable[CoreLocation]) -> list[CoreLocation]:
    """Devices in the order of jax.devices(): host by host, by id within a host."""
    return sorted(locations, key=lambda place: (place.process_index, place.id))


def host_tile(kind: AcceleratorType) -> Coords:
    """The box of chips that one host holds, along x, y, z: 2x2x1 of 4, 2x4x1 of 8; a whole slice of one host."""
    if kind.chips_per_host >= kind.num_chips:
        return shape_3d(kind)
    return _TILES[kind.chips_per_host]


_TILES: dict[int, Coords] = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
