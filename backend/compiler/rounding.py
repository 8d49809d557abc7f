"""Where do operands of the matrix unit lose bits? Rounding to bfloat16 is an instruction of its own.

As an elementwise instruction it fuses into whatever computes the operand, and is done once however many products read
it. Views commute with it, so it is moved before them, next to the computation.
"""

from __future__ import annotations

import numpy as np

from backend.compiler.program import Computation, Instruction

ROUND = "round_to_bfloat16"
_VIEWS = frozenset({"reshape", "transpose", "broadcast_in_dim", "reverse"})


def round_operands(computation: Computation) -> Computation:
    """The computation with float32 operands of matrix products at default precision rounded, regions included."""
    return _Rounding(computation).result()


class _Rounding:
    def __init__(self, computation: Computation) -> None:
        self._old = computation
        self._types = list(computation.types)
        self._producers = {value: i for i in computation.instructions for value in i.results}
        self._rounded: dict[int, int] = {}
        self._instructions: list[Instruction] = []

    def result(self) -> Computation:
        old = self._old
        for instruction in old.instructions:
            operands = instruction.operands
            if _rounds(instruction, old):
                operands = [self._round(value) for value in operands]
            regions = [round_operands(region) for region in instruction.regions]
            self._instructions.append(
                Instruction(
                    instruction.op, operands, instruction.results, instruction.attributes, regions, instruction.source
                )
            )
        return Computation(old.parameters, self._types, self._instructions, old.returns, old.captures)

    def _round(self, value: int) -> int:
        if self._types[value].dtype != np.float32:
            return value
        if value not in self._rounded:
            self._types.append(self._types[value])
            result = len(self._types) - 1
            producer = self._producers.get(value)
            if producer is not None and producer.op in _VIEWS:
                view = Instruction(
                    producer.op, [self._round(producer.operands[0])], [result], producer.attributes, [], producer.source
                )
                self._instructions.append(view)
            else:
                source = producer.source if producer is not None else ""
                self._instructions.append(Instruction(ROUND, [value], [result], {}, [], source))
            self._rounded[value] = result
        return self._rounded[value]


def _rounds(instruction: Instruction, computation: Computation) -> bool:
    if instruction.op == "convolution":
        return bool(instruction.attributes["precision"] == "DEFAULT")
    return (
        instruction.op == "dot_general"
        and instruction.attributes["precision"] == "DEFAULT"
        and _is_matrix_product(instruction, computation)
    )


def _is_matrix_product(instruction: Instruction, computation: Computation) -> bool:
    """Whether a matrix is multiplied by a matrix; a product with a vector is the vector unit's, in float32."""
    sizes = []
    for position, side in enumerate(("lhs", "rhs")):
        used = {*instruction.attributes[f"{side}_batch"], *instruction.attributes[f"{side}_contract"]}
        shape = computation.types[instruction.operands[position]].shape
        sizes.append(np.prod([size for axis, size in enumerate(shape) if axis not in used], dtype=np.int64))
    return bool(min(sizes) > 1)
