"""What does the compiler hand to the engine? Instructions as data.

A program is straight-line code over numbered values, in the order of execution; regions (the bodies of loops,
branches and reducers) are computations of the same form. Shapes are those of one core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backend.compiler.operations import HOST_TRANSFERS


@dataclass(frozen=True)
class TensorType:
    """Shape of one core's part, and element type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int:
        """Bytes without tile padding."""
        return self.size * self.dtype.itemsize


@dataclass
class Instruction:
    """One operation: ``operands`` and ``results`` are value numbers of the computation it stands in."""

    op: str
    operands: list[int]
    results: list[int]
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Computation] = field(default_factory=list)
    source: str = ""


@dataclass
class Computation:
    """A block: values 0..len(parameters)-1 are its parameters, then the captured values, then what it computes.

    ``captures`` pairs a value number of this block with the value number of the enclosing one. ``uniform`` and
    ``constant`` are filled in by scheduling: which values are one copy for all cores, and which no launch changes.
    """

    parameters: list[int]
    types: list[TensorType]
    instructions: list[Instruction]
    returns: list[int]
    captures: list[tuple[int, int]] = field(default_factory=list)
    uniform: list[bool] = field(default_factory=list)
    constant: list[bool] = field(default_factory=list)

    def new_value(self, kind: TensorType) -> int:
        self.types.append(kind)
        return len(self.types) - 1


def reaches_host(instruction: Instruction) -> bool:
    """Whether an instruction talks to the script's callbacks, itself or in a region."""
    return instruction.op in HOST_TRANSFERS or any(
        reaches_host(inner) for region in instruction.regions for inner in region.instructions
    )


@dataclass(frozen=True)
class MemoryStats:
    """HBM of one core that a program needs, in bytes, tile padding included."""

    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temp_bytes: int = 0
    code_bytes: int = 0


@dataclass(frozen=True)
class Collective:
    """A collective of a program, which runs ``times`` times; what it costs depends on where the cores are.

    ``nbytes`` is what one core brings, of an all-gather what it gets. ``groups`` are rows of core numbers, () one of
    all cores; a collective permute has ``pairs`` of them.
    """

    kind: str
    nbytes: int
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    times: int = 1


@dataclass(frozen=True)
class Cost:
    """Work of one core for one run of a program. Seconds, in all and on the matrix unit, are the timing model's.

    ``device_seconds`` are without those of the ``collectives``.
    """

    flops: float = 0.0
    transcendentals: float = 0.0
    bytes_accessed: float = 0.0
    device_seconds: float = 0.0
    mxu_seconds: float = 0.0
    collectives: tuple[Collective, ...] = ()


@dataclass(frozen=True)
class Identity:
    """What makes a program the same as another one, but for the lines of the script that it comes from.

    Programs of one core with the same ``signature`` differ in nothing but ``device_ids``.
    """

    signature: bytes
    device_ids: list[int]


@dataclass
class Program:
    """A compiled program: one core's code, run in lockstep by all ``num_replicas * num_partitions`` cores.

    ``body`` is the simplified code; ``schedule`` the same, fused for parameters that are uniform where ``replicated``.
    ``device_ids`` is the device assignment, replica-major; ``donated`` the parameters whose memory may be reused;
    ``replicated`` the parameters whose sharding says that every core holds the same value. ``argument_memories`` and
    ``result_memories`` are kinds of memory, "device" where nothing is said; ``argument_layouts`` and ``result_layouts``
    orders of dimensions, minor to major; ``inspections`` what the script wants to hear (see inspection.py).
    """

    name: str
    num_replicas: int
    num_partitions: int
    device_ids: list[int]
    body: Computation
    schedule: Computation
    donated: list[int]
    replicated: list[bool]
    memory: MemoryStats
    cost: Cost
    optimized_module: bytes
    argument_memories: list[str] = field(default_factory=list)
    result_memories: list[str] = field(default_factory=list)
    argument_layouts: list[list[int]] = field(default_factory=list)
    result_layouts: list[list[int]] = field(default_factory=list)
    inspections: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def num_cores(self) -> int:
        return self.num_replicas * self.num_partitions

    @property
    def reaches_host(self) -> bool:
        """Whether the program talks to callbacks of the script that launches it."""
        return any(map(reaches_host, self.body.instructions))

    @property
    def parameters(self) -> list[TensorType]:
        return [self.body.types[value] for value in self.body.parameters]

    @property
    def results(self) -> list[TensorType]:
        return [self.body.types[value] for value in self.body.returns]
