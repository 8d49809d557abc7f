"""Where is a core on the torus? Coordinates and device order."""

from __future__ import annotations

from dataclasses import dataclass

from backend.hardware.accelerator_types import AcceleratorType


@dataclass(frozen=True)
class CoreLocation:
    """One TensorCore: ``id`` is JAX's device id, ``coords`` its chip's (x, y, z) on the torus."""

    id: int
    coords: tuple[int, int, int]
    core_on_chip: int
    process_index: int

    @property
    def hbm_name(self) -> str:
        """The core's memory as the TPU runtime's errors name it: 0x0x0_HBM0."""
        return f"{'x'.join(map(str, self.coords))}_HBM{self.core_on_chip}"


def core_locations(kind: AcceleratorType) -> list[CoreLocation]:
    """Every core of a slice in device order: x fastest, then y, then z; the cores of a chip side by side."""
    cores = kind.generation.cores_per_chip
    x_size, y_size = kind.shape[0], kind.shape[1]
    locations = []
    for chip in range(kind.num_chips):
        coords = (chip % x_size, chip // x_size % y_size, chip // (x_size * y_size))
        for core in range(cores):
            locations.append(CoreLocation(chip * cores + core, coords, core, chip // kind.chips_per_host))
    return locations
