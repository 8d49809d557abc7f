"""What does a loop only carry along? Values that its body returns as they came are captured instead.

They are not copied into the loop, and what is computed from them alone can move out of it (backend.compiler.rounding).
"""

from __future__ import annotations

from dataclasses import replace

from backend.compiler.program import Computation, Instruction
from backend.compiler.simplify import renamed_captures


def capture_invariants(computation: Computation) -> Computation:
    """The same computation with loops that carry what changes. The argument is left as it was."""
    replaced: dict[int, int] = {}
    instructions = []
    for old in computation.instructions:
        regions = [renamed_captures(capture_invariants(region), replaced) for region in old.regions]
        new = replace(old, operands=[replaced.get(value, value) for value in old.operands], regions=regions)
        if new.op == "while":
            new = _without_invariants(new, replaced)
        instructions.append(new)
    returns = [replaced.get(value, value) for value in computation.returns]
    return replace(computation, instructions=instructions, returns=returns)


def _without_invariants(loop: Instruction, replaced: dict[int, int]) -> Instruction:
    """The loop without what it only carries; ``replaced`` then names the initial values in place of its results."""
    body = loop.regions[1]
    carried = list(zip(body.parameters, body.returns, strict=True))
    fixed = [position for position, (before, after) in enumerate(carried) if before == after]
    kept = [position for position in range(len(carried)) if position not in fixed]
    if not fixed or not kept:
        return loop
    replaced.update((loop.results[position], loop.operands[position]) for position in fixed)
    regions = [
        replace(
            region,
            parameters=[region.parameters[position] for position in kept],
            captures=[*region.captures, *((region.parameters[p], loop.operands[p]) for p in fixed)],
        )
        for region in loop.regions
    ]
    regions[1].returns = [body.returns[position] for position in kept]
    return replace(
        loop,
        operands=[loop.operands[position] for position in kept],
        results=[loop.results[position] for position in kept],
        regions=regions,
    )
