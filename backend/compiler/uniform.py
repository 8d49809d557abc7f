"""Which values are the same on every core? They are stored and computed once."""

from __future__ import annotations

from backend.compiler.program import Computation, Instruction

_NEVER = frozenset(
    {"partition_id", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast", "recv"}
)
_FULL_GROUP = frozenset({"all_reduce", "all_gather"})


def mark_uniform(
    computation: Computation, parameters: list[bool], num_cores: int, outer: list[bool] | None = None
) -> None:
    """Fill in ``computation.uniform`` (and its regions'), given which parameters are uniform.

    ``outer`` holds the flags of the enclosing computation, for captured values.
    """
    flags = [True] * len(computation.types)
    for value, flag in zip(computation.parameters, parameters, strict=True):
        flags[value] = flag
    for inner, outside in computation.captures:
        flags[inner] = outer[outside] if outer is not None else True
    for instruction in computation.instructions:
        for value, flag in zip(instruction.results, _results(instruction, flags, num_cores), strict=True):
            flags[value] = flag
    computation.uniform = flags


def spans_all_cores(groups: list[list[int]], num_cores: int) -> bool:
    """Whether replica groups are one group of every core. [] means just that."""
    return not groups or (len(groups) == 1 and len(groups[0]) == num_cores)


def _results(instruction: Instruction, flags: list[bool], num_cores: int) -> list[bool]:
    count = len(instruction.results)
    if num_cores == 1:
        for region in instruction.regions:
            mark_uniform(region, [True] * len(region.parameters), 1, flags)
        return [True] * count
    if instruction.op in _NEVER:
        return [False] * count
    if instruction.op in _FULL_GROUP:
        return [spans_all_cores(instruction.attributes["groups"], num_cores)] * count
    operands = [flags[value] for value in instruction.operands]
    if instruction.op == "while":
        return _while(instruction, operands, flags, num_cores)
    if instruction.op in {"case", "if"}:
        return _branches(instruction, operands[0], flags, num_cores)
    for region in instruction.regions:
        mark_uniform(region, [True] * len(region.parameters), 1, flags)
    return [all(operands)] * count


def _while(instruction: Instruction, carried: list[bool], flags: list[bool], num_cores: int) -> list[bool]:
    """A carried value is uniform if it starts so and the body keeps it so: the largest such set."""
    condition, body = instruction.regions
    while True:
        mark_uniform(body, carried, num_cores, flags)
        mark_uniform(condition, carried, num_cores, flags)
        decided_together = condition.uniform[condition.returns[0]]
        after = [
            before and decided_together and body.uniform[value]
            for before, value in zip(carried, body.returns, strict=True)
        ]
        if after == carried:
            return carried
        carried = after


def _branches(instruction: Instruction, chosen_together: bool, flags: list[bool], num_cores: int) -> list[bool]:
    for region in instruction.regions:
        mark_uniform(region, [], num_cores, flags)
    return [
        chosen_together and all(region.uniform[region.returns[position]] for region in instruction.regions)
        for position in range(len(instruction.results))
    ]
