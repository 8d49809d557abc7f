"""How long would the device take? A roofline for each instruction: matrix unit, vector unit, HBM, links.

Simulated device time is the sum over instructions of the slowest of the units it keeps busy, plus a fixed launch
cost; loops count their body once for each trip where the trip count is known from the condition, else once.
Collectives are listed: how long they take depends on where on the torus the cores are (backend/ici/timing.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backend.compiler.program import Collective, Computation, Cost, Instruction
from backend.compiler.rounding import ROUND
from backend.compiler.uniform import spans_all_cores
from backend.hardware import Generation

_TRANSCENDENTAL = frozenset(
    "exponential log tanh logistic sine cosine power sqrt rsqrt erf erf_inv log_plus_one exponential_minus_one".split()
)
_FREE = frozenset(
    {"constant", "reshape", "broadcast_in_dim", "iota", "partition_id", "replica_id", "transpose", "slice"}
)
_COLLECTIVES = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast"}
)


@dataclass
class Work:
    """Work of one core, summed: counts, simulated seconds in all and on the matrix unit, and what it sends."""

    flops: float = 0.0
    transcendentals: float = 0.0
    bytes_accessed: float = 0.0
    seconds: float = 0.0
    mxu_seconds: float = 0.0
    collectives: list[Collective] = field(default_factory=list)

    def add(self, other: Work, times: int = 1) -> None:
        self.flops += other.flops * times
        self.transcendentals += other.transcendentals * times
        self.bytes_accessed += other.bytes_accessed * times
        self.seconds += other.seconds * times
        self.mxu_seconds += other.mxu_seconds * times
        self.collectives += [replace(each, times=each.times * times) for each in other.collectives]


def program_cost(schedule: Computation, num_cores: int, generation: Generation) -> Cost:
    """Work of one core for one run of a scheduled program."""
    total = Work(seconds=generation.launch_seconds)
    total.add(_computation(schedule, generation, num_cores))
    return Cost(
        total.flops,
        total.transcendentals,
        total.bytes_accessed,
        total.seconds,
        total.mxu_seconds,
        _merged(total.collectives),
    )


def _merged(collectives: list[Collective]) -> tuple[Collective, ...]:
    """Those that are the same counted together, and equal groups kept once: a program may have hundreds."""
    times: dict[Collective, int] = {}
    known: dict[object, Any] = {}
    for each in collectives:
        groups, pairs = known.setdefault(each.groups, each.groups), known.setdefault(each.pairs, each.pairs)
        one = Collective(each.kind, each.nbytes, groups, pairs)
        times[one] = times.get(one, 0) + each.times
    return tuple(replace(one, times=count) for one, count in times.items())


def _computation(computation: Computation, generation: Generation, num_cores: int) -> Work:
    total = Work()
    for instruction in computation.instructions:
        if not (computation.constant and instruction.results and computation.constant[instruction.results[0]]):
            total.add(_instruction(instruction, computation, generation, num_cores))
    return total


def _instruction(instruction: Instruction, computation: Computation, generation: Generation, num_cores: int) -> Work:
    if instruction.op in _FREE:
        return Work()
    if instruction.op == "while":
        work = Work()
        work.add(_computation(instruction.regions[1], generation, num_cores), _trip_count(instruction, computation))
        return work
    if instruction.op in {"case", "if"}:
        return max((_computation(r, generation, num_cores) for r in instruction.regions), key=lambda work: work.seconds)
    work = Work(bytes_accessed=float(_bytes(instruction, computation)))
    if instruction.op in {"dot_general", "convolution", "ragged_dot"}:
        work.flops = _matrix_flops(instruction, computation)
        passes = instruction.attributes.get("passes", 1)
        work.mxu_seconds = passes * work.flops / generation.bf16_flops_per_device
    elif instruction.op == "fusion":
        for inner in instruction.regions[0].instructions:
            if inner.op == ROUND:
                continue  # the matrix unit does it on the way in
            size = float(instruction.regions[0].types[inner.results[0]].size)
            work.flops += size
            work.transcendentals += size if inner.op in _TRANSCENDENTAL else 0.0
    else:
        work.flops = float(max((computation.types[value].size for value in instruction.operands), default=0))
    vector_seconds = (
        0.0 if work.mxu_seconds else (work.flops + 4 * work.transcendentals) / generation.vector_flops_per_device
    )
    memory_seconds = work.bytes_accessed / generation.hbm_bytes_per_second_per_device
    work.seconds = max(work.mxu_seconds, vector_seconds, memory_seconds)
    if num_cores > 1 and (instruction.op in _COLLECTIVES or instruction.attributes.get("over_cores")):
        work.collectives.append(_collective(instruction, computation, num_cores))
    return work


def _bytes(instruction: Instruction, computation: Computation) -> int:
    return sum(computation.types[value].nbytes for value in (*instruction.operands, *instruction.results))


def _collective(instruction: Instruction, computation: Computation, num_cores: int) -> Collective:
    """What an instruction sends between cores; a contraction over cores is an all-reduce of its result."""
    attributes = instruction.attributes
    as_result = instruction.op == "all_gather" or instruction.op not in _COLLECTIVES
    values = instruction.results if as_result else instruction.operands
    nbytes = sum(computation.types[value].nbytes for value in values)
    if instruction.op not in _COLLECTIVES:
        return Collective("all_reduce", nbytes)
    if instruction.op == "collective_permute":
        return Collective(instruction.op, nbytes, pairs=tuple(map(tuple, attributes["pairs"])))
    groups = attributes["groups"]
    rows = () if spans_all_cores(groups, num_cores) else tuple(map(tuple, groups))
    return Collective(instruction.op, nbytes, rows)


def _matrix_flops(instruction: Instruction, computation: Computation) -> float:
    lhs, rhs = (computation.types[value].shape for value in instruction.operands[:2])
    result = computation.types[instruction.results[0]].size
    if instruction.op == "dot_general":
        return 2.0 * result * float(np.prod([lhs[d] for d in instruction.attributes["lhs_contract"]], dtype=np.float64))
    if instruction.op == "ragged_dot":  # each row meets the matrix of one group
        used = {d for name in ("batch", "contract", "group") for d in instruction.attributes[f"rhs_{name}"]}
        return 2.0 * float(np.prod([*lhs, *(n for d, n in enumerate(rhs) if d not in used)], dtype=np.float64))
    kernel = [rhs[d] for d in instruction.attributes["kernel"]]
    return 2.0 * result * float(np.prod(kernel[:-1], dtype=np.float64))


def _trip_count(instruction: Instruction, computation: Computation) -> int:
    """Trips of a loop that counts a constant start up to a constant limit, as scans and fori_loops do; else 1."""
    condition = instruction.regions[0]
    if len(condition.instructions) > 3:
        return 1
    compare = next(
        (
            i
            for f in condition.instructions
            for i in (f.regions[0].instructions if f.op == "fusion" else [f])
            if i.op == "compare"
        ),
        None,
    )
    limit = next((i.attributes["value"] for i in condition.instructions if i.op == "constant"), None)
    if limit is None:
        captured = {outer for _, outer in condition.captures}
        known = [i for i in computation.instructions if i.op == "constant" and i.results[0] in captured]
        limit = known[0].attributes["value"] if known else None
    if (
        compare is None
        or compare.attributes["direction"] != "LT"
        or limit is None
        or limit.ndim
        or limit.dtype.kind not in "iu"
    ):
        return 1
    return max(1, int(limit))
