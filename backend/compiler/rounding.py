"""Where do operands of the matrix unit lose bits? Rounding to bfloat16 is an instruction of its own.

The unit multiplies bfloat16 numbers. At default precision float32 operands are rounded; at HIGH and HIGHEST they are
split into a sum of bfloat16 parts, ``x = h + m + l``, and the products of the parts that count are summed: three passes
(hh, hm, mh) or six (hh, hm, mh, hl, lh, mm). Passes over one part of an operand are a single product here, since a
float32 holds the sum of parts exactly: ``_TERMS``.

As an elementwise instruction rounding fuses into whatever computes the operand, and is done once however many products
read it. Views commute with it, so it is moved before them, next to the computation; what a loop captures is rounded
before the loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from backend.compiler.program import Computation, Instruction, TensorType

ROUND = "round_to_bfloat16"
_VIEWS = frozenset({"reshape", "transpose", "broadcast_in_dim", "reverse"})
_FLOAT32 = np.dtype(np.float32)

_TERMS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "DEFAULT": (("high", "high", 1),),
    "HIGH": (("high + middle", "high", 2), ("finite high", "middle", 1)),
    "HIGHEST": (("all", "high", 3), ("finite high", "rest", 2), ("middle", "middle", 1)),
}
"""For each precision the products that are summed: part of the left operand, of the right one, passes of the unit."""


def round_operands(computation: Computation) -> Computation:
    """The computation with float32 operands of matrix products rounded or split, regions included."""
    return _Rounding(computation).result()


class _Rounding:
    def __init__(self, computation: Computation, around: _Rounding | None = None) -> None:
        """``around``: the computation that a loop's region stands in; what the loop leaves alone is rounded there."""
        self._old = computation
        self._around = around
        self._captures = list(computation.captures)
        self._captured = dict(computation.captures)
        self._types = list(computation.types)
        self._producers = {value: i for i in computation.instructions for value in i.results}
        self._parts: dict[tuple[int, str], int | None] = {}
        self._instructions: list[Instruction] = []

    def result(self) -> Computation:
        old = self._old
        for instruction in old.instructions:
            if _is_split(instruction, old):
                self._multiply(instruction)
            else:
                around = self if instruction.op == "while" else None
                regions = [_Rounding(region, around).result() for region in instruction.regions]
                self._instructions.append(replace(instruction, regions=regions))
        return Computation(old.parameters, self._types, self._instructions, old.returns, self._captures)

    def _multiply(self, product: Instruction) -> None:
        """The product as the sum of the products of parts; parts that are zero have none."""
        (result,) = product.results
        total: int | None = None
        left, right, *rest = product.operands
        terms = [
            (a, b, passes)
            for a, b, passes in _TERMS[product.attributes["precision"]]
            if not (self._is_zero(left, a) or self._is_zero(right, b))
        ]
        for position, (left_part, right_part, passes) in enumerate(terms):
            last = position == len(terms) - 1
            a, b = self._known(left, left_part), self._known(right, right_part)
            attributes = {**product.attributes, "passes": passes}
            target = result if last and total is None else self._new_value(self._types[result])
            self._instructions.append(Instruction(product.op, [a, b, *rest], [target], attributes, [], product.source))
            if total is not None:
                summed = result if last else self._new_value(self._types[result])
                self._append("add", [total, target], summed, product.source)
                target = summed
            total = target

    def _part(self, value: int, part: str) -> int | None:
        """A part of a value, computed on first use; None for one that is zero."""
        if self._is_exact(value):
            return None if self._is_zero(value, part) else value
        key = (value, part)
        if key not in self._parts:
            outside = self._around is not None and value in self._captured and part != "all"
            self._parts[key] = self._from_outside(value, part) if outside else self._computed(value, part)
        return self._parts[key]

    def _is_exact(self, value: int) -> bool:
        """Whether the matrix unit takes a value as it is: what is no float32, or was bfloat16."""
        return self._types[value].dtype != _FLOAT32 or self._was_bfloat16(value)

    def _is_zero(self, value: int, part: str) -> bool:
        return part in {"middle", "rest"} and self._is_exact(value)

    def _from_outside(self, value: int, part: str) -> int | None:
        outer = self._around._part(self._captured[value], part) if self._around is not None else None
        if outer is None:
            return None
        inner = self._new_value(self._types[value])
        self._captures.append((inner, outer))
        return inner

    def _was_bfloat16(self, value: int) -> bool:
        producer = self._producers.get(value)
        if producer is None or producer.op != "convert":
            return False
        return bool(self._types[producer.operands[0]].dtype == ml_dtypes.bfloat16)

    def _computed(self, value: int, part: str) -> int:
        if part == "all":
            return value
        producer = self._producers.get(value)
        source = producer.source if producer is not None else ""
        kind = self._types[value]
        target = self._new_value(kind)
        if producer is not None and producer.op in _VIEWS:
            inner = [self._known(producer.operands[0], part), *producer.operands[1:]]
            self._append(producer.op, inner, target, source, producer.attributes)
        elif part == "high":
            self._append(ROUND, [value], target, source)
        elif part == "middle":
            self._append(ROUND, [self._known(value, "rest")], target, source)
        elif part == "high + middle":
            self._append("add", [self._known(value, "high"), self._known(value, "middle")], target, source)
        elif part == "finite high":
            self._finite(value, self._known(value, "high"), target, source)
        else:
            rest = self._new_value(kind)
            self._append("subtract", [value, self._known(value, "high")], rest, source)
            self._finite(value, rest, target, source)
        return target

    def _finite(self, value: int, kept: int, target: int, source: str) -> None:
        """``kept`` where ``value`` is finite, else 0: infinity times a zero rest would be NaN."""
        kind = self._types[value]
        flag, zero = self._new_value(TensorType(kind.shape, np.dtype(np.bool_))), self._new_value(kind)
        scalar = self._new_value(TensorType((), _FLOAT32))
        self._append("is_finite", [self._known(value, "high")], flag, source)
        self._append("constant", [], scalar, source, {"value": np.zeros((), _FLOAT32)})
        self._append("broadcast_in_dim", [scalar], zero, source, {"dimensions": []})
        self._append("select", [flag, kept, zero], target, source)

    def _known(self, value: int, part: str) -> int:
        number = self._part(value, part)
        return value if number is None else number

    def _new_value(self, kind: TensorType) -> int:
        self._types.append(kind)
        return len(self._types) - 1

    def _append(
        self, op: str, operands: list[int], result: int, source: str, attributes: dict[str, Any] | None = None
    ) -> None:
        self._instructions.append(Instruction(op, operands, [result], attributes or {}, [], source))


def _is_split(instruction: Instruction, computation: Computation) -> bool:
    """Whether the matrix unit sees parts of the operands: it does, unless float32 has nowhere to be summed."""
    if instruction.op in {"convolution", "ragged_dot"}:
        takes = True
    else:
        takes = instruction.op == "dot_general" and _is_matrix_product(instruction, computation)
    exact = computation.types[instruction.results[0]].dtype != _FLOAT32 if instruction.results else True
    return takes and not (exact and instruction.attributes["precision"] != "DEFAULT")


def _is_matrix_product(instruction: Instruction, computation: Computation) -> bool:
    """Whether a matrix is multiplied by a matrix; a product with a vector is the vector unit's, in float32."""
    sizes = []
    for position, side in enumerate(("lhs", "rhs")):
        used = {*instruction.attributes[f"{side}_batch"], *instruction.attributes[f"{side}_contract"]}
        shape = computation.types[instruction.operands[position]].shape
        sizes.append(np.prod([size for axis, size in enumerate(shape) if axis not in used], dtype=np.int64))
    return bool(min(sizes) > 1)
