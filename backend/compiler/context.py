"""In which MLIR context are modules read? One like JAX's, without JAX, whose import takes long and much memory."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy
from jaxlib.mlir.dialects import stablehlo

_upstream = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(_upstream)


class _EmptyContext(ir.Context):  # type: ignore[misc]
    """With no dialect in it, as JAX's own: jaxlib's begins with all that it is linked with."""

    def __init__(self) -> None:
        super(ir.Context, self).__init__()


def new_context() -> ir.Context:
    """An MLIR context with the dialects that JAX emits. It works in the calling thread alone."""
    context = _EmptyContext()
    context.append_dialect_registry(_upstream)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    for library in (_sdy, _chlo, stablehlo):
        library.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    return context
