"""What need not be computed? Identities, common subexpressions and dead code go."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from backend.compiler.operations import HOST_TRANSFERS
from backend.compiler.program import Computation, Instruction, reaches_host


def simplify(computation: Computation) -> Computation:
    """The same computation with fewer instructions; regions too. The argument is left as it was."""
    replaced: dict[int, int] = {}
    seen: dict[Hashable, list[int]] = {}
    kept: list[Instruction] = []
    types = list(computation.types)
    for old in computation.instructions:
        operands = [replaced.get(value, value) for value in old.operands]
        regions = [simplify(renamed_captures(region, replaced)) for region in old.regions]
        new = Instruction(old.op, operands, old.results, old.attributes, regions, old.source)
        identity = _IDENTITY.get(new.op)
        if identity is not None and identity(new, computation):
            replaced[new.results[0]] = operands[0]
            continue
        if new.op == "reduce" and _reduces_nothing(new, computation):
            new = Instruction("reshape", operands[:1], old.results, {}, [], old.source)
        key = _key(new, computation)
        if key is not None and key in seen:
            replaced.update(zip(new.results, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = new.results
        kept.append(new)
    returns = [replaced.get(value, value) for value in computation.returns]
    return Computation(computation.parameters, types, live(kept, returns), returns, [*computation.captures])


def live(instructions: list[Instruction], returns: list[int]) -> list[Instruction]:
    """The instructions that ``returns`` depends on or that reach the host, in order."""
    needed = set(returns)
    kept = []
    for instruction in reversed(instructions):
        if needed.intersection(instruction.results) or reaches_host(instruction):
            kept.append(instruction)
            needed.update(uses(instruction))
    return kept[::-1]


def uses(instruction: Instruction) -> list[int]:
    """Values an instruction reads: its operands, and what its regions capture."""
    if not instruction.regions:
        return instruction.operands
    return [*instruction.operands, *(outer for region in instruction.regions for _, outer in region.captures)]


def renamed_captures(region: Computation, replaced: dict[int, int]) -> Computation:
    """The region, capturing what stands in place of values that were replaced outside."""
    captures = [(inner, replaced.get(outer, outer)) for inner, outer in region.captures]
    return Computation(region.parameters, region.types, region.instructions, region.returns, captures)


def _same_shape(instruction: Instruction, computation: Computation) -> bool:
    return computation.types[instruction.operands[0]] == computation.types[instruction.results[0]]


def _in_order(name: str) -> Callable[[Instruction, Computation], bool]:
    def check(instruction: Instruction, computation: Computation) -> bool:
        order: list[int] = instruction.attributes[name]
        return _same_shape(instruction, computation) and order == list(range(len(order)))

    return check


_IDENTITY: dict[str, Callable[[Instruction, Computation], bool]] = {
    "reshape": _same_shape,
    "convert": _same_shape,
    "slice": _same_shape,
    "transpose": _in_order("permutation"),
    "broadcast_in_dim": _in_order("dimensions"),
}


def _reduces_nothing(instruction: Instruction, computation: Computation) -> bool:
    """Whether a sum, maximum, ... runs over dimensions of size 1 only, from its own neutral element."""
    shape = computation.types[instruction.operands[0]].shape
    ones = all(shape[dim] == 1 for dim in instruction.attributes["dimensions"])
    return (
        ones
        and len(instruction.results) == 1
        and reducer(instruction.regions[0]) in {"add", "maximum", "minimum"}
        and (starts_neutral(instruction, computation))
    )


def starts_neutral(instruction: Instruction, computation: Computation) -> bool:
    """Whether a reduce starts from the constant that its operation leaves alone."""
    initial = next((i for i in computation.instructions if i.results == [instruction.operands[1]]), None)
    if initial is None or initial.op != "constant":
        return False
    value = initial.attributes["value"]
    kind = value.dtype
    if kind.kind not in "fiu":
        return False
    neutral: dict[str, Any] = {
        "add": 0,
        "multiply": 1,
        "maximum": -np.inf if kind.kind == "f" else np.iinfo(kind).min,
        "minimum": np.inf if kind.kind == "f" else np.iinfo(kind).max,
    }
    return bool(value == neutral.get(reducer(instruction.regions[0]), np.nan))


_BINARY_REDUCERS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def reducer(region: Computation) -> str:
    """The one operation of a reducer such as ``a + b``; "second" for one that returns its second parameter; else ""."""
    body = [i for i in region.instructions if i.op != "convert"]
    if not body and region.returns == region.parameters[1:2]:
        return "second"
    plain = len(body) == 1 and len(region.parameters) == 2 and len(region.returns) == 1 and not region.captures
    if plain and body[0].op in _BINARY_REDUCERS and len(set(body[0].operands)) == 2:
        return body[0].op
    return ""


def _key(instruction: Instruction, computation: Computation) -> Hashable | None:
    """Equal for instructions that compute the same; None where that can't be told cheaply."""
    if instruction.regions or instruction.op in HOST_TRANSFERS:
        return None
    attributes = tuple(sorted((name, _hashable(value)) for name, value in instruction.attributes.items()))
    kinds = tuple((computation.types[v].shape, computation.types[v].dtype) for v in instruction.results)
    return (instruction.op, tuple(instruction.operands), attributes, kinds)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, value.tobytes())
    return repr(value)
