"""How does a value lie in HBM? Its layout, its tile, and the bytes of the padded shape.

The minor-most dimension is rounded up to 128 lanes and the second minor to the tile's sublanes; a vector is rounded up
to a tile of whole registers. Without a layout the compiler takes the two minor dimensions that waste least, which is
XLA's compact layout for TPUs. Published cases: flowpm issue 27, tensorflow issue 30803; and libtpu 0.0.42 chooses the
same layouts, tiles and sizes for v2 and v3 (tests/conformance/libtpu_memory.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np

from backend.compiler.program import TensorType

_LANES = 128
_SUBLANES = 8
_WORD_BITS = 32
_REGISTER_WORDS = 256
_VECTOR_TILE = 1024
_NARROW_BITS = {np.dtype(ml_dtypes.int2): 2, np.dtype(ml_dtypes.uint2): 2}
"""Element types whose tiles have room for more sublanes; 4-bit integers take a byte and the tiles of 8-bit ones."""


@dataclass(frozen=True)
class Layout:
    """Dimensions from the minor-most on, the tile that pads them, and the HBM bytes of one core's buffer."""

    minor_to_major: tuple[int, ...]
    tile: str
    hbm_bytes: int

    def __str__(self) -> str:
        """As the TPU compiler prints it: {1,0:T(8,128)}."""
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{self.tile}}}" if self.tile else f"{{{order}}}"


@lru_cache(maxsize=4096)
def layout_of(kind: TensorType, minor_to_major: tuple[int, ...] | None = None) -> Layout:
    """The layout of a value: as told, or the compiler's own choice."""
    rank = len(kind.shape)
    if kind.size == 0:
        return Layout(minor_to_major or tuple(range(rank))[::-1], "", 0)
    if rank < 2:
        tile = _vector_tile(kind)
        text = f"T({tile})" + (_packed(kind, lanes=True) if rank else "")
        return Layout(tuple(range(rank)), text, _round_up(kind.size, tile) * kind.dtype.itemsize)
    order = minor_to_major or _compact(kind)
    minor, second = kind.shape[order[0]], kind.shape[order[1]]
    sublanes = _sublanes(kind, second)
    size = kind.size // (minor * second) * _round_up(minor, _LANES) * _round_up(second, sublanes)
    return Layout(order, f"T({sublanes},{_LANES}){_packed(kind)}", size * kind.dtype.itemsize)


def padded_bytes(kind: TensorType, minor_to_major: Sequence[int] | None = None) -> int:
    """Bytes of one core's buffer in HBM."""
    return layout_of(kind, None if minor_to_major is None else tuple(minor_to_major)).hbm_bytes


def _compact(kind: TensorType) -> tuple[int, ...]:
    """The two minor dimensions that waste least, later ones where it makes no difference; the rest in order."""
    rank = len(kind.shape)

    def padded(pair: tuple[int, int]) -> int:
        minor, second = kind.shape[pair[0]], kind.shape[pair[1]]
        rows = _round_up(second, min(_sublanes(kind, second), _SUBLANES))
        return kind.size // (minor * second) * _round_up(minor, _LANES) * rows

    best = min(permutations(range(rank - 1, -1, -1), 2), key=padded)
    return (*best, *(dim for dim in range(rank - 1, -1, -1) if dim not in best))


def _packing(kind: TensorType) -> int:
    """How many elements share a 32-bit word's place. Wider types are stored as several words' planes."""
    bits = _NARROW_BITS.get(kind.dtype, 8 * kind.dtype.itemsize)
    return max(1, _WORD_BITS // bits)


def _sublanes(kind: TensorType, second: int) -> int:
    """Sublanes of the tile: small second-minor dimensions get smaller ones, but no smaller than two words' rows."""
    sublanes = 2 * _packing(kind)
    while sublanes < min(_SUBLANES, second):
        sublanes *= 2
    return sublanes if sublanes <= _SUBLANES else max(_SUBLANES, sublanes // 2)


def _vector_tile(kind: TensorType) -> int:
    whole = _REGISTER_WORDS * _packing(kind)
    tile = min(whole, _VECTOR_TILE)
    limit = max(_VECTOR_TILE, whole // 2)
    while tile < min(limit, kind.size):
        tile *= 2
    return tile


def _packed(kind: TensorType, lanes: bool = False) -> str:
    """The inner tiles of packed elements: (2,1) for pairs; vectors name their lanes as well."""
    packing = min(_packing(kind), 4)
    if packing == 1:
        return ""
    return f"({_LANES})({packing},1)" if lanes else f"({packing},1)"


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


_XLA_NAMES = {"bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}


def xla_name(dtype: np.dtype[Any]) -> str:
    """An element type as XLA prints it: f32, bf16, pred, s8, f8e4m3fn."""
    name = dtype.name
    if name in _XLA_NAMES:
        return _XLA_NAMES[name]
    for prefix, short in (("float", "f"), ("uint", "u"), ("int", "s")):
        if name.startswith(prefix):
            return short + name.removeprefix(prefix).replace("_", "")
    return name
