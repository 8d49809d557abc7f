"""What does a module's entry function say of its arguments and results? Attributes of them, kept when it is cut up."""

from __future__ import annotations

from jaxlib.mlir import ir

from backend.compiler.attributes import string
from backend.compiler.stablehlo import main_function

Said = tuple[list[str], list[str]]
"""Of each argument, and of each result."""


def said(module: ir.Module, name: str, default: str) -> Said:
    """The attribute called ``name`` of each argument and result; ``default`` for those that have none."""
    if _kept(name) in module.operation.attributes:
        arguments, results = (ir.ArrayAttr(row) for row in ir.ArrayAttr(module.operation.attributes[_kept(name)]))
        return [string(text) for text in arguments], [string(text) for text in results]
    function = main_function(module)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return (
        _row(function, "arg_attrs", len(kind.inputs), name, default),
        _row(function, "res_attrs", len(kind.results), name, default),
    )


def keep_said(module: ir.Module, name: str, words: Said) -> None:
    """Write down in a partitioned module what its source said."""
    rows = [ir.ArrayAttr.get([ir.StringAttr.get(text) for text in row]) for row in words]
    module.operation.attributes[_kept(name)] = ir.ArrayAttr.get(rows)


def _kept(name: str) -> str:
    return f"mhlo.tpuctl_{name.removeprefix('mhlo.')}"


def _row(function: ir.Operation, side: str, count: int, name: str, default: str) -> list[str]:
    if side not in function.attributes:
        return [default] * count
    rows = [ir.DictAttr(row) for row in ir.ArrayAttr(function.attributes[side])]
    return [string(row[name]) if name in row else default for row in rows]
