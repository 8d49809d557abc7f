"""How are numbers too small for a normal exponent treated? As zero, read and written: as on chips and by XLA."""

from __future__ import annotations

import ctypes
import platform

_ENVIRONMENT_BYTES = 64
_CONTROL = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""By machine: where in glibc's ``fenv_t`` the control register is, and its bits that flush to zero."""


def flush_denormals(flush: bool) -> None:
    """Let this thread flush denormals from now on, or again not. Nothing changes on a machine that isn't known."""
    environment = _FLUSHED if flush else _USUAL
    if environment is not None:
        _LIBM.fesetenv(environment)


def _environment(flush: bool) -> ctypes.Array[ctypes.c_char] | None:
    """This thread's floating-point environment, with flushing on if asked."""
    if platform.machine() not in _CONTROL:
        return None
    state = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    _LIBM.fegetenv(state)
    if flush:
        offset, bits = _CONTROL[platform.machine()]
        ctypes.c_uint32.from_buffer(state, offset).value |= bits
    return state


_LIBM = ctypes.CDLL(None)
_USUAL, _FLUSHED = _environment(flush=False), _environment(flush=True)
