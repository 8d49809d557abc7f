"""In what steps does the engine run a computation? Contractions over cores, and fused elementwise groups.

Two rewrites. A sum over all cores of a per-core contraction becomes one contraction over cores as well ("over_cores"):
the per-core value is never stored. And elementwise instructions of one iteration space become a single "fusion",
whose region holds them: it runs block by block in cache.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field

from backend.compiler.operations import ELEMENTWISE, HOST_TRANSFERS
from backend.compiler.program import Computation, Instruction
from backend.compiler.rounding import ROUND
from backend.compiler.simplify import reducer, starts_neutral, uses
from backend.compiler.uniform import mark_uniform, spans_all_cores

FUSIBLE = ELEMENTWISE | {"compare", "convert", "reduce_precision", ROUND}
_LARGEST_CONSTANT_BYTES = 1 << 20
_CONTROL_FLOW = frozenset({"while", "case", "if"})
_EVERY_LAUNCH = _CONTROL_FLOW | HOST_TRANSFERS
_OUTSIDE = -1


def schedule(computation: Computation, uniform_parameters: list[bool], num_cores: int) -> Computation:
    """A computation ready for the engine, for parameters that are uniform as told. The argument is left as it was."""
    result = _deep_copy(computation)
    mark_uniform(result, uniform_parameters, num_cores)
    _rewrite(result, num_cores)
    return result


def _deep_copy(computation: Computation) -> Computation:
    new = copy(computation)
    new.types = list(computation.types)
    new.instructions = []
    for old in computation.instructions:
        instruction = copy(old)
        instruction.regions = [_deep_copy(region) for region in old.regions]
        new.instructions.append(instruction)
    return new


def _rewrite(computation: Computation, num_cores: int) -> None:
    for instruction in computation.instructions:
        if instruction.op in _CONTROL_FLOW:
            for region in instruction.regions:
                _rewrite(region, num_cores)
    if num_cores > 1:
        _contract_over_cores(computation, num_cores)
    _mark_constant(computation)
    _fuse(computation)


def _mark_constant(computation: Computation) -> None:
    """Values that no launch changes: constants, core numbers, and what is computed from them alone."""
    known = [False] * len(computation.types)
    for instruction in computation.instructions:
        small = all(computation.types[value].nbytes <= _LARGEST_CONSTANT_BYTES for value in instruction.results)
        if small and instruction.op not in _EVERY_LAUNCH and all(known[value] for value in uses(instruction)):
            for value in instruction.results:
                known[value] = True
    computation.constant = known


def _contract_over_cores(computation: Computation, num_cores: int) -> None:
    use_count = Counter(value for i in computation.instructions for value in uses(i))
    use_count.update(computation.returns)
    producers = {value: i for i in computation.instructions for value in i.results}
    dropped: set[int] = set()
    for instruction in computation.instructions:
        if instruction.op != "all_reduce" or len(instruction.operands) != 1:
            continue
        value = instruction.operands[0]
        producer = producers.get(value)
        if (
            producer is None
            or use_count[value] != 1
            or not spans_all_cores(instruction.attributes["groups"], num_cores)
            or not _contracts(producer, reducer(instruction.regions[0]), computation)
        ):
            continue
        merged = copy(producer)
        merged.attributes = {**producer.attributes, "over_cores": True}
        merged.results = instruction.results
        computation.instructions[computation.instructions.index(instruction)] = merged
        dropped.add(id(producer))
    computation.instructions = [i for i in computation.instructions if id(i) not in dropped]


def _contracts(producer: Instruction, combine: str, computation: Computation) -> bool:
    """Whether ``producer`` sums (or takes a maximum, ...) so that cores can be one more dimension of it."""
    per_core = [not computation.uniform[value] for value in producer.operands]
    if producer.op == "dot_general":
        return combine == "add" and all(per_core)
    if producer.op == "convolution":
        plain = producer.attributes["feature_groups"] == producer.attributes["batch_groups"] == 1
        return combine == "add" and all(per_core) and plain
    if producer.op == "reduce" and len(producer.results) == 1:
        own = reducer(producer.regions[0])
        twice = combine in {"maximum", "minimum", "and", "or"} or starts_neutral(producer, computation)
        return per_core == [True, False] and own == combine != "" and twice
    return False


@dataclass
class _Group:
    members: list[Instruction] = field(default_factory=list)
    open: bool = True


def _fuse(computation: Computation) -> None:
    """Group elementwise instructions that share an iteration space.

    A group runs where its last member stands, so it is closed as soon as something outside reads one of its values.
    """
    owner: dict[int, _Group] = {}
    order: list[_Group | Instruction] = []
    for instruction in computation.instructions:
        joinable = []
        for value in uses(instruction):
            group = owner.get(value)
            if group is not None and group.open:
                if instruction.op in FUSIBLE and _space(instruction, computation) == _space(
                    group.members[0], computation
                ):
                    if group not in joinable:
                        joinable.append(group)
                else:
                    group.open = False
        if instruction.op not in FUSIBLE:
            order.append(instruction)
            continue
        merged = _Group()
        for group in joinable:
            if group.open:
                order.remove(group)
                merged.members.extend(group.members)
        merged.members.append(instruction)
        for member in merged.members:
            owner.update(dict.fromkeys(member.results, merged))
        order.append(merged)
    readers: dict[int, set[int]] = {value: {_OUTSIDE} for value in computation.returns}
    for instruction in computation.instructions:
        for value in uses(instruction):
            readers.setdefault(value, set()).add(id(instruction))
    computation.instructions = [
        _fusion(entry.members, readers, computation) if isinstance(entry, _Group) else entry for entry in order
    ]


def _space(instruction: Instruction, computation: Computation) -> tuple[object, ...]:
    value = instruction.results[0]
    return (computation.types[value].shape, computation.uniform[value], computation.constant[value])


def _fusion(members: list[Instruction], readers: dict[int, set[int]], computation: Computation) -> Instruction:
    inside = {value for member in members for value in member.results}
    own = {id(member) for member in members}
    region = Computation([], [], [], [])
    numbers: dict[int, int] = {}
    operands: list[int] = []
    for member in members:
        for value in member.operands:
            if value not in inside and value not in numbers:
                numbers[value] = region.new_value(computation.types[value])
                region.parameters.append(numbers[value])
                operands.append(value)
    for member in members:
        for value in member.results:
            numbers[value] = region.new_value(computation.types[value])
        region.instructions.append(
            Instruction(
                member.op,
                [numbers[v] for v in member.operands],
                [numbers[v] for v in member.results],
                member.attributes,
                [],
                member.source,
            )
        )
    results = [value for member in members for value in member.results if readers.get(value, set()) - own]
    region.returns = [numbers[value] for value in results]
    return Instruction("fusion", operands, results, {}, [region], members[-1].source)
