"""StableHLO in, per-core programs out."""

from __future__ import annotations

from backend.compiler.program import Cost, MemoryStats, Program, TensorType
from backend.hardware import Generation

__all__ = ["Cost", "MemoryStats", "Program", "TensorType", "compile_module"]


def compile_module(module: bytes, compile_options: bytes, generation: Generation) -> Program:
    """Compile a StableHLO module (portable artifact or bytecode) with a serialized CompileOptionsProto.

    The module may also be a program's own ``optimized_module``, which needs no partitioning any more.

    Raises InvalidArgument for a malformed module, Unimplemented (with the operation and its source line) for what the
    chips can't run yet, ResourceExhausted for a program that doesn't fit a core's HBM.
    """
    from backend.compiler.compile import compile_module as compile_with_jaxlib  # jaxlib is imported when first needed

    return compile_with_jaxlib(module, compile_options, generation)
