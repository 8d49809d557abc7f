"""The structs of the PJRT C API as ctypes classes, made from the tables in abi.py."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver import abi

_HEADER = "struct_size:size extension_start:pointer "
_FIELD_TYPES: dict[str, Any] = {
    "size": ctypes.c_size_t,
    "pointer": ctypes.c_void_p,
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "bool": ctypes.c_bool,
    "layout_union": ctypes.c_int64 * 7,
}


def _struct(name: str, fields: str) -> Any:
    columns = (field.split(":") for field in fields.split())
    layout = [(field, _FIELD_TYPES.get(kind) or STRUCTS[kind]) for field, kind in columns]
    return type(name, (ctypes.Structure,), {"_fields_": layout})


STRUCTS: dict[str, Any] = {}
for _name, _fields in abi.PLAIN_STRUCTS.items():
    STRUCTS[_name] = _struct(_name, _fields)
for _name, _fields in abi.STRUCTS.items():
    STRUCTS[_name] = _struct(_name, _HEADER + _fields)

ARGUMENTS: dict[str, Any] = {
    name: _struct(f"{name}_Args", _HEADER + fields) for name, fields in (abi.FUNCTIONS | abi.LAYOUTS_FUNCTIONS).items()
}

Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
"""Every function of the API: takes an argument struct, returns a PJRT_Error or null."""

Api = _struct(
    "PJRT_Api",
    _HEADER
    + "version_size:size version_extension_start:pointer major_version:int32 minor_version:int32 "
    + " ".join(f"{name}:pointer" for name in abi.FUNCTIONS),
)

LayoutsExtension = _struct(
    "PJRT_Layouts_Extension",
    "struct_size:size type:int32 next:pointer " + " ".join(f"{name}:pointer" for name in abi.LAYOUTS_FUNCTIONS),
)

ErrorFunctions = _struct(
    "PJRT_Error_FunctionTable",
    "struct_size:size instance_size:size extension_start:pointer destroy:pointer message:pointer code:pointer "
    "for_each_payload:pointer",
)

MemoryFunctions = _struct(
    "PJRT_Memory_FunctionTable",
    "struct_size:size extension_start:pointer instance_size:size get_user_data:pointer set_user_data:pointer",
)


def address_of(function: Any) -> int:
    """The address that C calls a ctypes function by."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None  # noqa: S101
    return address
