"""What does JAX say where the driver cannot work? An error with the reason, and nothing runs on the CPU instead."""

from __future__ import annotations

from typing import Any, NoReturn

from jax._src import xla_bridge

from backend.errors import FailedPrecondition

_PRIORITY = 500


def register_refusal(message: str) -> None:
    """Let JAX's platform ``tpu`` be an error that says ``message``."""

    def refuse() -> NoReturn:
        raise FailedPrecondition(message)

    factory: Any = refuse
    xla_bridge.register_backend_factory("tpu", factory, priority=_PRIORITY, fail_quietly=False)
