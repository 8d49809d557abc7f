"""Which element types can a buffer have? Names on the link are numpy's, with ml_dtypes' narrow types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from backend.errors import InvalidArgument

_NARROW = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float4_e2m1fn int2 int4 uint2 uint4"
)
_WIDE = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _WIDE.split()} | {
    name: np.dtype(getattr(ml_dtypes, name)) for name in _NARROW.split()
}


def dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype called ``name``. Raises InvalidArgument."""
    try:
        return DTYPES[name]
    except KeyError:
        raise InvalidArgument(f'"{name}" is not an element type of device buffers') from None
