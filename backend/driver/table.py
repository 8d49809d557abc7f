"""The function table that jaxlib gets: every slot of the API filled, and emptied again when Python exits."""

from __future__ import annotations

import _thread
import ctypes
import logging
from typing import Any

from backend.driver import abi, buffers, client, devices, errors, events, executables, launches, layouts, streams
from backend.driver.errors import error_handle
from backend.driver.native import CODE, DESTROY, NOTHING, TELLERS, set_python
from backend.driver.slots import IMPLEMENTATIONS, Implementation
from backend.driver.structs import ARGUMENTS, Api, Function, LayoutsExtension, address_of
from backend.errors import Internal, TpuError, Unimplemented

_log = logging.getLogger(__name__)
_MODULES = (buffers, client, devices, errors, events, executables, launches, layouts, streams)
"""Importing them fills IMPLEMENTATIONS."""

_IN_PYTHON = {"PJRT_Client_Destroy"}
"""Destructors that end more than an object, and that jaxlib calls at quiet moments only."""

_kept: list[Any] = []


class Cancelled(TpuError):
    """The user pressed Ctrl-C."""

    code = 1


def build() -> Any:
    """A PJRT_Api whose functions are ours."""
    extension = LayoutsExtension(ctypes.sizeof(LayoutsExtension), abi.LAYOUTS_EXTENSION_TYPE)
    for name in abi.LAYOUTS_FUNCTIONS:
        setattr(extension, name, _address(name))
    api = Api(ctypes.sizeof(Api), ctypes.addressof(extension), 24, None, abi.MAJOR_VERSION, abi.MINOR_VERSION)
    for name in abi.FUNCTIONS:
        setattr(api, name, _address(name))
    for struct in (api, extension):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(struct))  # jaxlib reads them until the end of the process
    return api


def disconnect(api: Any) -> None:
    """Let every function do nothing: Python is about to go, but jaxlib still destroys what it holds."""
    for name in abi.FUNCTIONS:
        setattr(api, name, DESTROY if _is_native(name) else NOTHING)


def capsule(api: Any) -> object:
    """The table as jaxlib takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(api), _CAPSULE_NAME, None)


_CAPSULE_NAME = b"pjrt_c_api"


def _is_native(name: str) -> bool:
    return name.endswith("_Destroy") and name not in _IN_PYTHON


def _address(name: str) -> int:
    if _is_native(name):
        return DESTROY
    if name in TELLERS:
        return TELLERS[name]
    function = Function(_guarded(name, IMPLEMENTATIONS.get(name) or _missing(name)))
    _kept.append(function)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    if name in CODE:
        set_python(name, address_of(function))
        return CODE[name]
    return address_of(function)


def _guarded(name: str, implementation: Implementation) -> Any:
    """The function that C++ calls: from an address to an error or nothing."""
    from_address = ARGUMENTS[name].from_address

    def entry(address: int) -> int | None:
        try:
            implementation(from_address(address))
        except TpuError as error:
            return error_handle(error)
        except KeyboardInterrupt:
            _thread.interrupt_main()
            return error_handle(Cancelled("interrupted"))
        except Exception as error:  # noqa: BLE001 the boundary to C++, which no exception can cross
            _log.exception("%s failed", name)
            return error_handle(Internal(f"{name}: {type(error).__name__}: {error}"))
        return None

    return entry


def _missing(name: str) -> Implementation:
    def refuse(args: Any) -> None:
        raise Unimplemented(f"{name} is not supported on this device")

    return refuse
