"""Which arguments and results lie in the host's memory instead of HBM? What the entry function says of each.

Inside a program values are where they are computed: marks that move them are dropped. XLA's partitioner takes such a
mark for an effect that it can't cut.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from backend.compiler.attributes import string
from backend.compiler.stablehlo import main_function

_MEMORY = "mhlo.memory_kind"
_KEPT = "mhlo.tpuctl_memories"
_MARK = "annotate_device_placement"
HBM = "device"

Memories = tuple[list[str], list[str]]


def memories(module: ir.Module) -> Memories:
    """Memory kind of each argument, and of each result."""
    if _KEPT in module.operation.attributes:
        arguments, results = (ir.ArrayAttr(kinds) for kinds in ir.ArrayAttr(module.operation.attributes[_KEPT]))
        return [string(kind) for kind in arguments], [string(kind) for kind in results]
    function = main_function(module)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return _kinds(function, "arg_attrs", len(kind.inputs)), _kinds(function, "res_attrs", len(kind.results))


def keep_memories(module: ir.Module, kinds: Memories) -> None:
    """Write down in a partitioned module what its source said."""
    rows = [ir.ArrayAttr.get([ir.StringAttr.get(kind) for kind in row]) for row in kinds]
    module.operation.attributes[_KEPT] = ir.ArrayAttr.get(rows)


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


def _kinds(function: ir.Operation, name: str, count: int) -> list[str]:
    if name not in function.attributes:
        return [HBM] * count
    rows = [ir.DictAttr(row) for row in ir.ArrayAttr(function.attributes[name])]
    return [string(row[_MEMORY]) if _MEMORY in row else HBM for row in rows]
