"""In what order do the dimensions of arguments and results lie in memory? As the script says, or as suits the program.

A layout is XLA's: dimensions from minor to major. Here it is a description of the buffer and changes no data: the
emulated HBM holds every array in row-major order.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from backend.compiler.entry import Said, said
from backend.compiler.operations import ELEMENTWISE
from backend.compiler.program import Computation

MODE = "mhlo.layout_mode"
_DEFAULT, _AUTO = "default", "auto"

Layout = list[int]


def layout_modes(module: ir.Module) -> Said:
    """What the script says of each argument, and of each result: "default", "auto", or a layout: "{0,1}"."""
    return said(module, MODE, _DEFAULT)


def settle_layouts(body: Computation, modes: Said) -> tuple[list[Layout], list[Layout]]:
    """Layouts of arguments and results. A result that may have any is as a transposition has left it, at no cost."""
    ranks = [len(kind.shape) for kind in body.types]
    arguments = [_settled(mode, ranks[value]) for mode, value in zip(modes[0], body.parameters, strict=True)]
    found = dict(zip(body.parameters, arguments, strict=True))
    for instruction in body.instructions:
        source = instruction.operands[0] if instruction.operands else None
        layout = found.get(source) if source is not None else None
        if layout is None:
            continue
        if instruction.op == "transpose":
            place = {axis: position for position, axis in enumerate(instruction.attributes["permutation"])}
            found[instruction.results[0]] = [place[axis] for axis in layout]
        elif instruction.op in ELEMENTWISE and ranks[instruction.results[0]] == len(layout):
            found[instruction.results[0]] = layout
    results = []
    for mode, value in zip(modes[1], body.returns, strict=True):
        free = found.get(value) if mode == _AUTO else None
        results.append(free or _settled(mode, ranks[value]))
    return arguments, results


def _settled(mode: str, rank: int) -> Layout:
    if mode in (_DEFAULT, _AUTO):
        return _row_major(rank)
    order = mode[mode.index("{") + 1 :].split("}", maxsplit=1)[0].split(":", maxsplit=1)[0]
    return [int(axis) for axis in order.split(",") if axis]


def _row_major(rank: int) -> Layout:
    return list(reversed(range(rank)))
