"""Which slices can be asked for by name? One row an accelerator type.

Names, topologies and hosts: Cloud TPU's regions page and TPU configurations page. v2 and v3 names count TensorCores;
a host of v2 and v3 holds 4 chips of 2 cores.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from backend.hardware.generations import Generation, generation


@dataclass(frozen=True)
class AcceleratorType:
    """A slice shape: ``topology`` in chips ("2x2"), and the generation its chips are of."""

    name: str
    generation: Generation
    topology: str
    chips_per_host: int = 4

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.topology.split("x"))

    @property
    def num_chips(self) -> int:
        chips = 1
        for size in self.shape:
            chips *= size
        return chips

    @property
    def num_cores(self) -> int:
        return self.num_chips * self.generation.cores_per_chip

    @property
    def num_hosts(self) -> int:
        return max(1, self.num_chips // self.chips_per_host)


class UnknownAcceleratorType(ValueError):
    """No accelerator type has this name; the message gives the nearest and the valid ones."""

    def __init__(self, name: str) -> None:
        valid = ", ".join(ACCELERATOR_TYPES)
        nearest = difflib.get_close_matches(name, ACCELERATOR_TYPES, n=1, cutoff=0.5)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        super().__init__(f'"{name}" is not an accelerator type.{hint} Valid types: {valid}.')
        self.name = name


ACCELERATOR_TYPES: dict[str, AcceleratorType] = {
    row.name: row
    for row in (
        AcceleratorType("v2-8", generation("v2"), "2x2"),
        AcceleratorType("v3-8", generation("v3"), "2x2"),
    )
}


def accelerator_type(name: str) -> AcceleratorType:
    """The accelerator type called ``name`` ("v3-8"). Raises UnknownAcceleratorType."""
    try:
        return ACCELERATOR_TYPES[name]
    except KeyError:
        raise UnknownAcceleratorType(name) from None
