"""How does a script hear of a sharding that it inspects? By calling what its key points at, a C function and data."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from backend.errors import Internal, InvalidArgument


class _Arguments(ctypes.Structure):
    """JAX_InspectSharding_Callback_Args of xla/python/inspect_sharding.h."""

    _fields_ = (
        ("sharding", ctypes.c_char_p),
        ("sharding_size", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
        ("error_scratch", ctypes.c_void_p),
        ("free_error", ctypes.c_void_p),
    )


_KEY_BYTES = 2 * ctypes.sizeof(ctypes.c_size_t)
_Call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_FreeError = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def tell(inspections: Iterable[tuple[bytes, bytes]], module: bytes) -> None:
    """Call the script's callbacks with what the compiler found in ``module``.

    A key is an address of this process: only one that the module itself has is called. Raises InvalidArgument if a
    callback fails, Internal for any other key.
    """
    for key, sharding in inspections:
        if len(key) != _KEY_BYTES or key not in module:
            raise Internal("the slice tells of a sharding that this program does not inspect")
        function, data = (ctypes.c_size_t * 2).from_buffer_copy(key)
        arguments = _Arguments(sharding, len(sharding))
        _Call(function)(data, ctypes.addressof(arguments))
        if arguments.error:
            message = arguments.error.decode(errors="replace")
            _FreeError(arguments.free_error)(ctypes.addressof(arguments))
            raise InvalidArgument(message)
