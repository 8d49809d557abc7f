"""What may C++ point at for longer than a call? Strings, arrays and attribute lists."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from backend.driver.structs import STRUCTS

Attribute = str | int | float | bool | Sequence[int]

_STRING, INT64, _INT64_LIST, _FLOAT, _BOOL = range(5)


class Kept:
    """C data that stays where it is as long as this object lives."""

    def __init__(self) -> None:
        self._buffers: list[Any] = []
        self._texts: dict[bytes, tuple[int, int]] = {}

    def text(self, value: str | bytes) -> tuple[int, int]:
        """Address and size of a string, the same for equal strings."""
        data = value.encode() if isinstance(value, str) else value
        if data not in self._texts:
            buffer = ctypes.create_string_buffer(data, len(data) + 1)
            self._buffers.append(buffer)
            self._texts[data] = ctypes.addressof(buffer), len(data)
        return self._texts[data]

    def array(self, kind: Any, values: Sequence[Any]) -> tuple[int, int]:
        """Address and length of a C array."""
        buffer = (kind * max(1, len(values)))(*values)
        self._buffers.append(buffer)
        return ctypes.addressof(buffer), len(values)

    def pointers(self, addresses: Sequence[int]) -> tuple[int, int]:
        """Address and length of an array of pointers."""
        return self.array(ctypes.c_void_p, addresses)

    def named_values(self, attributes: Mapping[str, Attribute]) -> tuple[int, int]:
        """Address and length of an array of PJRT_NamedValue."""
        kind = STRUCTS["PJRT_NamedValue"]
        entries = []
        for name, value in attributes.items():
            name_address, name_size = self.text(name)
            tag, content, size = self._encode(value)
            entries.append(kind(ctypes.sizeof(kind), None, name_address, name_size, tag, content, size))
        return self.array(kind, entries)

    def _encode(self, value: Attribute) -> tuple[int, int, int]:
        """Type tag, the union's eight bytes as a number, and size."""
        match value:
            case bool():
                return _BOOL, int(value), 1
            case int():
                return INT64, value, 1
            case float():
                return _FLOAT, int.from_bytes(struct.pack("<f", value), "little"), 1
            case str():
                return _STRING, *self.text(value)
            case _:
                return _INT64_LIST, *self.array(ctypes.c_int64, value)


_FOREVER = Kept()
text, array, pointers, named_values = _FOREVER.text, _FOREVER.array, _FOREVER.pointers, _FOREVER.named_values
"""The same for what lives as long as the process: keep nothing there of which there are ever more."""
