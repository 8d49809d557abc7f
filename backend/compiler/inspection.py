"""What does XLA tell of the shardings that a script inspects (jax.debug.inspect_array_sharding)?

The script marks a value by a custom call that carries a key, two pointers into its own process. The partitioner, which
is another one, gets keys of its own, writes down what it is told, and the script hears it when the program is compiled.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from jaxlib import xla_client
from jaxlib.mlir import ir

from backend.compiler import stablehlo
from backend.compiler.attributes import string
from backend.compiler.context import new_context

MARK = b"InspectSharding"
_SIZES = struct.Struct("!II")
_kept: list[Any] = []

Inspection = tuple[bytes, bytes]
"""The script's key, and a serialized OpSharding."""


def watch(module: bytes, report: Path) -> bytes:
    """The module with keys of this process; what they are told is added to the file ``report``."""
    with new_context() as context:
        parsed = stablehlo.parse(module, context)

        def rewrite(view: ir.OpView) -> ir.WalkResult:
            operation = view.operation
            if (
                operation.name == "stablehlo.custom_call"
                and string(operation.attributes["call_target_name"]) == MARK.decode()
            ):
                key = ir.StringAttr(operation.attributes["backend_config"]).value_bytes
                own = xla_client.encode_inspect_sharding_callback(_writer(key, report))
                operation.attributes["backend_config"] = ir.StringAttr.get(own)
            return ir.WalkResult.ADVANCE

        parsed.operation.walk(rewrite)
        return stablehlo.bytecode(parsed)


def _writer(key: bytes, report: Path) -> Any:
    def write(sharding: Any) -> None:
        told = sharding.to_proto().SerializeToString()
        with report.open("ab") as file:
            file.write(_SIZES.pack(len(key), len(told)) + key + told)

    _kept.append(write)
    return write


def read_report(report: bytes) -> list[Inspection]:
    """What was written down, in order."""
    found, position = [], 0
    while position < len(report):
        key_size, size = _SIZES.unpack_from(report, position)
        position += _SIZES.size
        found.append((report[position : position + key_size], report[position + key_size :][:size]))
        position += key_size + size
    return found
