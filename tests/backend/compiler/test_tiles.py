"""How values lie in HBM: published cases, and what the TPU compiler chose for many buffers."""

from __future__ import annotations

import json

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from backend.compiler.program import TensorType
from backend.compiler.tiles import layout_of, padded_bytes
from tests.conformance.libtpu_memory import ORACLE

GIB = 1 << 30


@pytest.mark.parametrize(
    ("shape", "dtype", "minor_to_major", "expected"),
    [
        ((8388608, 8, 4), np.int32, (2, 1, 0), 32 * GIB),  # flowpm issue 27
        ((256, 512, 128, 2), np.float32, (3, 2, 1, 0), 8 * GIB),  # tensorflow issue 30803
        ((8, 128), np.float32, (1, 0), 4096),
        ((16, 128), ml_dtypes.bfloat16, (1, 0), 4096),
    ],
)
def test_published_buffers_take_the_bytes_that_were_reported(
    shape: tuple[int, ...], dtype: type, minor_to_major: tuple[int, ...], expected: int
) -> None:
    assert padded_bytes(TensorType(shape, np.dtype(dtype)), minor_to_major) == expected


def test_without_a_layout_the_least_wasteful_is_taken() -> None:
    kind = TensorType((8388608, 8, 4), np.dtype(np.int32))
    assert (str(layout_of(kind)), padded_bytes(kind)) == ("{0,2,1:T(4,128)}", 1 * GIB)


def test_layouts_tiles_and_sizes_are_those_of_the_tpu_compiler() -> None:
    expected, actual = {}, {}
    for name, shape, layout, hbm_bytes in json.loads(ORACLE.read_text())["layouts"]:
        found = layout_of(TensorType(tuple(shape), jnp.dtype(name)))
        expected[name, tuple(shape)] = (f"{{{layout}}}", hbm_bytes)
        actual[name, tuple(shape)] = (str(found), found.hbm_bytes)
    assert len(expected) > 300
    assert actual == expected
