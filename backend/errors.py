"""What can go wrong on the device side: one exception tree that carries google.rpc codes.

TpuError
├── InvalidArgument
├── NotFound
├── ResourceExhausted
├── FailedPrecondition
├── Unimplemented
├── Internal
├── Unavailable
└── Unauthenticated
"""

from __future__ import annotations


class TpuError(Exception):
    """An error a user may see. ``code`` is a google.rpc.Code number; ``message`` says what to do."""

    code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidArgument(TpuError):
    code = 3


class NotFound(TpuError):
    code = 5


class ResourceExhausted(TpuError):
    code = 8


class FailedPrecondition(TpuError):
    code = 9


class Unimplemented(TpuError):
    code = 12


class Internal(TpuError):
    code = 13


class Unavailable(TpuError):
    code = 14


class Unauthenticated(TpuError):
    code = 16


_BY_CODE = {kind.code: kind for kind in TpuError.__subclasses__()}


def error_from_code(code: int, message: str) -> TpuError:
    """The exception for an error that came over a process boundary as (code, message)."""
    return _BY_CODE.get(code, Internal)(message)
