"""How do Pallas kernels run? In JAX's TPU interpret mode, which this turns on: the chips have no Mosaic compiler.

The kernel's body runs on the chips; its memories, DMAs and semaphores are simulated by JAX in the script's process.
"""

from __future__ import annotations

from typing import Any

from jax._src import callback, config
from jax._src.pallas.mosaic.interpret.params import InterpretParams
from jax._src.sharding_impls import SdyArrayList


class Interpreted(InterpretParams):  # type: ignore[misc]  # JAX doesn't say its type
    """Interpret mode's own settings; as JAX compares them at every call, they are compared by identity."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def interpret_kernels() -> None:
    """Let every ``pallas_call`` of this process be interpreted, whatever it says itself."""
    config.pallas_tpu_interpret_mode_context_manager.set_global(Interpreted())
    callback.receive_from_host = _receive_from_host


_original = callback.receive_from_host


def _receive_from_host(
    ctx: Any, channel: int, token: Any, out_aval: Any, name: str | None = None, *, sharding: Any = None
) -> Any:
    """JAX's own, but each result of a callback in a manual computation has a sharding of its own rank.

    JAX gives all of them the first one's, which MLIR refuses where ranks differ, as in the interpreter's loads.
    """
    if isinstance(sharding, SdyArrayList):
        first = sharding.shardings[0]
        if not first.logical_device_ids and len(first.dim_shardings) != out_aval.ndim:
            sharding = callback._get_sdy_array_list_for_callbacks([out_aval])
    return _original(ctx, channel, token, out_aval, name, sharding=sharding)
