"""Which values does a TPU store in HBM? The others are computed where they are read, inside fusions.

What the TPU compiler does, as rules (read off libtpu's optimized HLO):
- An elementwise value goes into its reader's fusion, also that of a reduction, matrix product or convolution. With
  several readers it is computed in each, if that reads no more than two values of its size; else it is stored.
- A product's result goes into the elementwise reader behind it. Two products don't fuse: of what comes from one, all
  that a further one or several readers take is stored.
- A value that is only rounded for the matrix unit is stored as bfloat16; sums of it are taken in the same fusion.
- Of two products in a row, with nothing between them, the first is computed within the second.
- Transposes and reshapes cost nothing: layouts are chosen to make them bitcasts.
- Updates of slices, scatters, loops and sums over cores work in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from backend.compiler.program import Computation, Instruction, TensorType
from backend.compiler.rounding import ROUND
from backend.compiler.schedule import FUSIBLE
from backend.compiler.simplify import uses

_MAY_BE_BITCASTS = frozenset({"reshape", "transpose", "broadcast_in_dim"})
_PRODUCTS = frozenset({"dot_general", "convolution"})
_COMPUTED_ANYWHERE = FUSIBLE | {
    "broadcast_in_dim",
    "bitcast_convert",
    "iota",
    "constant",
    "slice",
    "reverse",
    "pad",
    "dynamic_slice",
}
_FUSES_OPERANDS = _COMPUTED_ANYWHERE | _PRODUCTS | {"reduce", "reduce_window", "concatenate", "dynamic_update_slice"}
_WORKS_IN_PLACE = _COMPUTED_ANYWHERE | {
    *("dynamic_update_slice", "scatter", "while", "case", "if", "sort", "cholesky", "all_reduce"),
}
_RECOMPUTED_READS = 2
_SMALL_SHARE = 8
_LONGEST_DETOUR = 64
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass
class Step:
    """One fusion or other operation on the chip: the values it stores, and the stored values that it reads."""

    instruction: Instruction
    stores: dict[int, TensorType]
    reads: frozenset[int]
    time: int
    in_place: bool


@dataclass
class _Known:
    """How a value is had: the stored values that it is computed from; and by way of which product, if by one.

    ``nested``: whether that product has another one within.
    """

    leaves: frozenset[int]
    product: int | None = None
    time: int = -1
    nested: bool = False


def steps(computation: Computation, roots: dict[int, int]) -> list[Step]:
    """The operations that store something, in the order in which the chip runs them.

    ``computation`` is simplified, and has no rounding in it yet; ``roots`` are its ``bitcast_roots``.
    """
    return _Planner(_with_rounding(computation, roots), roots).result()


def _with_rounding(computation: Computation, roots: dict[int, int]) -> Computation:
    """The computation with the rounding of the matrix unit's float32 operands as values of their own.

    More precise products split their operands inside the unit, which stores nothing.
    """
    types, instructions = list(computation.types), []
    rounded: dict[int, int] = {}
    for instruction in computation.instructions:
        if instruction.op in _PRODUCTS and instruction.attributes["precision"] == "DEFAULT":
            operands = [roots.get(value, value) for value in instruction.operands]
            for value in operands:
                if types[value].dtype == np.float32 and value not in rounded:
                    types.append(types[value])
                    rounded[value] = len(types) - 1
                    instructions.append(Instruction(ROUND, [value], [rounded[value]], source=instruction.source))
            instructions.append(replace(instruction, operands=[rounded.get(value, value) for value in operands]))
        else:
            instructions.append(instruction)
    return replace(computation, types=types, instructions=instructions)


class _Planner:
    def __init__(self, computation: Computation, roots: dict[int, int]) -> None:
        self._computation = computation
        self._types = computation.types
        self._roots = roots
        self._returned = {self._root(value) for value in computation.returns}
        self._readers: dict[int, list[Instruction]] = {}
        self._read_whole: set[int] = set()
        for instruction in computation.instructions:
            if not self._is_bitcast(instruction):
                self._note_readers(instruction)
        self._known: dict[int, _Known] = {}
        self._stored_at: dict[int, int] = {}
        self._makers: dict[int, tuple[int, Instruction]] = {}
        self._steps: list[Step] = []

    def result(self) -> list[Step]:
        outside = [*self._computation.parameters, *(inner for inner, _ in self._computation.captures)]
        for value in outside:
            self._known[value] = _Known(frozenset((value,)))
            self._stored_at[value] = -1
        for index, instruction in enumerate(self._computation.instructions):
            if self._is_bitcast(instruction):
                continue
            if instruction.op in _COMPUTED_ANYWHERE or instruction.op in _PRODUCTS:
                self._fuse(index, instruction)
            else:
                self._run(index, instruction)
        return sorted(self._steps, key=lambda step: step.time)

    def _is_bitcast(self, instruction: Instruction) -> bool:
        return instruction.op in _MAY_BE_BITCASTS and instruction.results[0] in self._roots

    def _root(self, value: int) -> int:
        return self._roots.get(value, value)

    def _note_readers(self, instruction: Instruction) -> None:
        fuses = instruction.op in _FUSES_OPERANDS
        for position, value in enumerate(uses(instruction)):
            root = self._root(value)
            self._readers.setdefault(root, []).append(instruction)
            if not fuses or (instruction.op == "dynamic_update_slice" and position == 0):
                self._read_whole.add(root)

    def _fuse(self, index: int, instruction: Instruction) -> None:
        """Take up a value that fusions can compute, and store it if it can't go into those of its readers."""
        value = instruction.results[0]
        operands = [self._known[self._root(operand)] for operand in instruction.operands]
        products = {known.product for known in operands} - {None}
        if len(products) > 1:
            self._store_all_but_last(instruction, products)
            operands = [self._known[self._root(operand)] for operand in instruction.operands]
        product = next((known.product for known in operands if known.product is not None), None)
        nested = any(known.nested for known in operands)
        if instruction.op in _PRODUCTS:
            product, nested = index, product is not None
        leaves = frozenset(leaf for known in operands for leaf in known.leaves)
        time = index if product == index else max((known.time for known in operands), default=-1)
        self._known[value] = _Known(leaves, product, time, nested)
        self._makers[value] = (index, instruction)
        if self._is_stored(value):
            self._store(value)

    def _store_all_but_last(self, instruction: Instruction, products: set[int | None]) -> None:
        last = max(product for product in products if product is not None)
        for operand in instruction.operands:
            root = self._root(operand)
            if self._known[root].product not in (None, last):
                self._store(root)

    def _is_stored(self, value: int) -> bool:
        known, readers = self._known[value], self._readers.get(value, [])
        op = self._makers[value][1].op
        if value in self._returned:
            return True
        if op == "constant":
            return False
        if value in self._read_whole:
            return True
        if known.product is not None:
            return not self._goes_into_one_fusion(value)
        if len(readers) < 2:
            return False
        size = self._types[value].size
        read = [self._types[leaf].size for leaf in known.leaves]
        return sum(leaf for leaf in read if leaf * _SMALL_SHARE > size) > _RECOMPUTED_READS * size

    def _goes_into_one_fusion(self, value: int) -> bool:
        """Whether what is made of a product's result comes together again in one value, by elementwise ways alone."""
        readers = self._readers.get(value, [])
        if any(reader.op == ROUND for reader in readers):
            readers = [reader for reader in readers if reader.op != "reduce"]
        if len(readers) == 1:
            reader = readers[0]
            return reader.op in _COMPUTED_ANYWHERE or reader.op == "reduce" or self._nests(value, reader)
        ahead = {reader.results[0]: reader for reader in readers}
        for _ in range(_LONGEST_DETOUR):
            if not ahead:
                return False
            made = min(ahead)
            if ahead.pop(made).op not in _COMPUTED_ANYWHERE:
                return False
            if not ahead:
                return True
            if made in self._returned or made in self._read_whole:
                return False
            ahead.update((reader.results[0], reader) for reader in self._readers.get(made, []))
        return False

    def _nests(self, value: int, reader: Instruction) -> bool:
        """Whether a product is computed row by row within the one that reads it, and is none that holds another."""
        known = self._known[value]
        if reader.op not in _PRODUCTS or self._makers[value][1].op not in {*_PRODUCTS, ROUND} or known.nested:
            return False
        return self._root(reader.operands[0]) == value

    def _store(self, value: int) -> None:
        known = self._known[value]
        index, instruction = self._makers[value]
        early = known.product is not None or value in self._returned
        earliest = max((self._stored_at[leaf] for leaf in known.leaves), default=-1)
        time = max(known.time, earliest) if early else index
        self._add(Step(instruction, self._kinds([value]), known.leaves, time, instruction.op in _WORKS_IN_PLACE))

    def _run(self, index: int, instruction: Instruction) -> None:
        """An operation that stores its results, and has read what isn't fused into it from HBM."""
        operands = [self._known[self._root(operand)] for operand in uses(instruction)]
        leaves = frozenset(leaf for known in operands for leaf in known.leaves)
        time = index
        if instruction.op == "reduce" and any(known.product is not None for known in operands):
            time = max(known.time for known in operands)
            time = max([time, *(self._stored_at[leaf] for leaf in leaves)])
        for value in instruction.results:
            self._makers[value] = (index, instruction)
        stores = self._kinds([value for value in instruction.results if value not in self._roots])
        self._add(Step(instruction, stores, leaves, time, instruction.op in _WORKS_IN_PLACE))

    def _add(self, step: Step) -> None:
        self._steps.append(step)
        for value in step.stores:
            self._known[value] = _Known(frozenset((value,)), None, step.time)
            self._stored_at[value] = step.time

    def _kinds(self, values: list[int]) -> dict[int, TensorType]:
        """The types in which values lie in HBM."""
        return {value: self._kind(value) for value in values}

    def _kind(self, value: int) -> TensorType:
        kind = self._types[value]
        rounded = value in self._makers and self._makers[value][1].op == ROUND
        return TensorType(kind.shape, _BFLOAT16) if rounded else kind


def bitcast_roots(computation: Computation) -> dict[int, int]:
    """What each value that takes no memory of its own is a bitcast of: also what a loop carries and never changes."""
    roots: dict[int, int] = {}
    for instruction in computation.instructions:
        if instruction.op in _MAY_BE_BITCASTS and _is_bitcast(instruction, computation):
            operand = instruction.operands[0]
            roots[instruction.results[0]] = roots.get(operand, operand)
        elif instruction.op == "while":
            body = instruction.regions[1]
            for position, operand in enumerate(instruction.operands):
                if body.returns[position] == body.parameters[position]:
                    roots[instruction.results[position]] = roots.get(operand, operand)
    return roots


def _is_bitcast(instruction: Instruction, computation: Computation) -> bool:
    if instruction.op == "broadcast_in_dim":
        return computation.types[instruction.operands[0]].size == computation.types[instruction.results[0]].size > 1
    return True
