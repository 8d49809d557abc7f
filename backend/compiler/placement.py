"""Which arguments and results lie in the host's memory instead of HBM? What the entry function says of each.

Inside a program values are where they are computed: marks that move them are dropped. XLA's partitioner takes such a
mark for an effect that it can't cut.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from backend.compiler.attributes import string
from backend.compiler.entry import Said, said

MEMORY = "mhlo.memory_kind"
_MARK = "annotate_device_placement"
HBM = "device"


def memories(module: ir.Module) -> Said:
    """Memory kind of each argument, and of each result."""
    return said(module, MEMORY, HBM)


def drop_marks(module: ir.Module) -> None:
    """Let the marks that move values between memories be nothing."""
    marks: list[ir.Operation] = []

    def find(view: ir.OpView) -> ir.WalkResult:
        operation = view.operation
        if operation.name == "stablehlo.custom_call" and string(operation.attributes["call_target_name"]) == _MARK:
            marks.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(find)
    for mark in marks:
        mark.results[0].replace_all_uses_with(mark.operands[0])
        mark.erase()
