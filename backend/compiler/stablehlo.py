"""How does a StableHLO module become our instructions? Calls inlined, attributes read into plain data."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from backend.compiler.attributes import (
    element_index,
    element_types,
    is_identity,
    name_of,
    reader_of,
    string,
    tensor_type,
)
from backend.compiler.program import Computation, Instruction
from backend.errors import InvalidArgument


def parse(module: bytes, context: ir.Context) -> ir.Module:
    """The module in ``module``: a StableHLO portable artifact, MLIR bytecode or text. Raises InvalidArgument."""
    try:
        return stablehlo.deserialize_portable_artifact(context, module)
    except Exception:  # noqa: BLE001  (the bindings raise bare errors; the other formats are tried next)
        try:
            return ir.Module.parse(module, context)
        except Exception as error:  # noqa: BLE001
            raise InvalidArgument(f"the program is not a StableHLO module: {error}") from None


def parse_hlo(module: bytes, context: ir.Context) -> ir.Module:
    """The StableHLO module of a serialized HloModuleProto."""
    return ir.Module.parse(xla_client._xla.mlir.hlo_to_stablehlo(module), context)


def bytecode(module: ir.Module) -> bytes:
    """MLIR bytecode of ``module``."""
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def main_function(module: ir.Module) -> ir.Operation:
    """The entry function. Raises InvalidArgument if there is none."""
    for operation in module.body.operations:
        if operation.operation.name == "func.func" and string(operation.attributes["sym_name"]) == "main":
            return operation.operation
    raise InvalidArgument("the module has no function called main")


def argument_attributes(module: ir.Module) -> list[dict[str, ir.Attribute]]:
    """Attribute dictionary of each argument of the entry function, in order."""
    function = main_function(module)
    count = len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)
    if "arg_attrs" not in function.attributes:
        return [{} for _ in range(count)]
    rows = ir.ArrayAttr(function.attributes["arg_attrs"])
    return [{named.name: named.attr for named in ir.DictAttr(row)} for row in rows]


def check_supported(module: ir.Module) -> None:
    """Raise Unimplemented, with the line it came from, for the first operation of ``module`` that isn't taken."""
    functions = _functions(module)
    for operation, source in _reached(main_function(module), functions, _UNKNOWN):
        dialect, name = operation.name.split(".", 1)
        if dialect in {"stablehlo", "chlo", "mhlo"} and name not in {"return", "composite"}:
            reader_of(operation, source)


def _reached(
    operation: ir.Operation, functions: dict[str, ir.Operation], source: str
) -> Iterator[tuple[ir.Operation, str]]:
    """Every operation below, also by way of calls, with its line or else that of the call."""
    for region in operation.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                here = source_of(inner, source)
                yield inner, here
                if inner.name == "func.call":
                    yield from _reached(functions[_callee(inner, "callee")], functions, here)
                else:
                    yield from _reached(inner, functions, here)


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    return {
        string(operation.attributes["sym_name"]): operation.operation
        for operation in module.body.operations
        if operation.operation.name == "func.func"
    }


def _callee(operation: ir.Operation, attribute: str) -> str:
    return str(ir.FlatSymbolRefAttr(operation.attributes[attribute]).value)


def import_module(module: ir.Module) -> Computation:
    """The entry function of ``module`` as one computation, all calls inlined. Raises Unimplemented, InvalidArgument."""
    return _Importer(_functions(module)).computation(main_function(module).regions[0].blocks[0], None, _UNKNOWN)


class _Importer:
    """Walks blocks; a scope maps MLIR values to value numbers of the computation being built."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self._functions = functions

    def computation(self, block: ir.Block, outer: _Scope | None, source: str) -> Computation:
        scope = _Scope(outer, source)
        for argument in block.arguments:
            number = scope.computation.new_value(tensor_type(argument.type))
            scope.numbers[argument] = number
            scope.computation.parameters.append(number)
        scope.computation.returns = self._fill(block, scope)
        return scope.computation

    def _fill(self, block: ir.Block, scope: _Scope) -> list[int]:
        for view in block.operations:
            operation = view.operation
            name = operation.name.split(".", 1)[1]
            if name == "return":
                return [scope.number(value) for value in operation.operands]
            if name == "get_tuple_element":
                scope.numbers[operation.results[0]] = scope.tuples[operation.operands[0]][element_index(operation)]
            elif name in {"call", "composite"}:
                self._inline(operation, "callee" if name == "call" else "decomposition", scope)
            else:
                self._append(operation, scope)
        return []

    def _inline(self, operation: ir.Operation, attribute: str, scope: _Scope) -> None:
        body = self._functions[_callee(operation, attribute)].regions[0].blocks[0]
        inner = _Scope(None, source_of(operation, scope.source), scope.computation)
        for argument, operand in zip(body.arguments, operation.operands, strict=True):
            inner.numbers[argument] = scope.number(operand)
        for result, number in zip(operation.results, self._fill(body, inner), strict=True):
            scope.numbers[result] = number

    def _append(self, operation: ir.Operation, scope: _Scope) -> None:
        operands = [scope.number(value) for value in operation.operands]
        if is_identity(operation):
            scope.numbers.update(zip(operation.results, operands, strict=False))
            return
        source = source_of(operation, scope.source)
        attributes = reader_of(operation, source)(operation)
        regions = [self.computation(region.blocks[0], scope, source) for region in operation.regions]
        results = []
        for result in operation.results:
            numbers = [scope.computation.new_value(tensor_type(kind)) for kind in element_types(result.type)]
            if isinstance(result.type, ir.TupleType):
                scope.tuples[result] = numbers
            else:
                scope.numbers[result] = numbers[0]
            results += numbers
        scope.computation.instructions.append(
            Instruction(name_of(operation), operands, results, attributes, regions, source)
        )


class _Scope:
    def __init__(self, outer: _Scope | None, source: str, computation: Computation | None = None) -> None:
        self.outer = outer
        self.source = source
        self.numbers: dict[ir.Value, int] = {}
        self.tuples: dict[ir.Value, list[int]] = {}
        self.computation = computation or Computation([], [], [], [])

    def number(self, value: ir.Value) -> int:
        """The value's number here; a value of an enclosing block is captured on first use."""
        if value not in self.numbers:
            if self.outer is None:
                raise InvalidArgument("the module uses a value before it is defined")
            outside = self.outer.number(value)
            self.numbers[value] = self.computation.new_value(self.outer.computation.types[outside])
            self.computation.captures.append((self.numbers[value], outside))
        return self.numbers[value]


_UNKNOWN = "source unknown"
_LOCATION = re.compile(r'"([^"<>]+\.py)":(\d+)')


def source_of(operation: ir.Operation, otherwise: str) -> str:
    """ "file:line" of the innermost line of the user's that made the operation; ``otherwise`` if none is known."""
    frames = _LOCATION.findall(str(operation.location))
    own = [frame for frame in frames if "site-packages" not in frame[0]]
    for file, line in own or frames:
        return f"{file}:{line}"
    return otherwise
