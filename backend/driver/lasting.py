"""What may C++ point at for as long as the process lives? Strings, arrays and attribute lists."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from backend.driver.structs import STRUCTS

Attribute = str | int | float | bool | Sequence[int]

_kept: list[Any] = []
_STRING, _INT64, _INT64_LIST, _FLOAT, _BOOL = range(5)


@cache
def text(value: str | bytes) -> tuple[int, int]:
    """Address and size of a string, the same for equal strings."""
    data = value.encode() if isinstance(value, str) else value
    buffer = ctypes.create_string_buffer(data, len(data) + 1)
    _kept.append(buffer)
    return ctypes.addressof(buffer), len(data)


def array(kind: Any, values: Sequence[Any]) -> tuple[int, int]:
    """Address and length of a C array."""
    buffer = (kind * max(1, len(values)))(*values)
    _kept.append(buffer)
    return ctypes.addressof(buffer), len(values)


def pointers(addresses: Sequence[int]) -> tuple[int, int]:
    """Address and length of an array of pointers."""
    return array(ctypes.c_void_p, addresses)


def named_values(attributes: Mapping[str, Attribute]) -> tuple[int, int]:
    """Address and length of an array of PJRT_NamedValue."""
    kind = STRUCTS["PJRT_NamedValue"]
    entries = []
    for name, value in attributes.items():
        name_address, name_size = text(name)
        tag, content, size = _encode(value)
        entries.append(kind(ctypes.sizeof(kind), None, name_address, name_size, tag, content, size))
    return array(kind, entries)


def _encode(value: Attribute) -> tuple[int, int, int]:
    """Type tag, the union's eight bytes as a number, and size."""
    match value:
        case bool():
            return _BOOL, int(value), 1
        case int():
            return _INT64, value, 1
        case float():
            return _FLOAT, int.from_bytes(struct.pack("<f", value), "little"), 1
        case str():
            return _STRING, *text(value)
        case _:
            return _INT64_LIST, *array(ctypes.c_int64, value)
