"""How does an error reach C++? As a PJRT_Error, an object with a function table."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver import handles
from backend.driver.native import BURY
from backend.driver.slots import slot
from backend.driver.structs import ErrorFunctions, address_of
from backend.errors import TpuError


class DriverError(handles.Droppable):
    """A PJRT_Error: code and message."""

    __slots__ = ("code", "text")

    def __init__(self, error: TpuError) -> None:
        self.code = error.code
        self.text = ctypes.create_string_buffer(error.message.encode())

    @property
    def message(self) -> tuple[int, int]:
        """Address and size of the message."""
        return ctypes.addressof(self.text), len(self.text) - 1


def error_handle(error: TpuError) -> int:
    """A new PJRT_Error, owned by whoever gets it."""
    return handles.new(DriverError(error), _FUNCTIONS)


def _message(error: int, message: int, size: int) -> None:
    ctypes.c_void_p.from_address(message).value, ctypes.c_size_t.from_address(size).value = handles.resolve(
        error
    ).message


def _code(error: int) -> int:
    return int(handles.resolve(error).code)


def _for_each_payload(error: int, visitor: int, user_argument: int) -> None:
    return


_callbacks = (
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(_message),
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_code),
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(_for_each_payload),
)
_functions = ErrorFunctions(ctypes.sizeof(ErrorFunctions), 8, None, BURY, *map(address_of, _callbacks))
_FUNCTIONS = ctypes.addressof(_functions)


@slot("PJRT_Error_Message")
def _message_slot(args: Any) -> None:
    args.message, args.message_size = handles.resolve(args.error).message


@slot("PJRT_Error_GetCode")
def _code_slot(args: Any) -> None:
    args.code = handles.resolve(args.error).code


@slot("PJRT_Error_ForEachPayload")
def _payloads_slot(args: Any) -> None:
    return
