"""Bytes of HBM: the tile rule against published cases, and the plan of a program."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from backend.compiler.memory import padded_bytes
from backend.compiler.program import TensorType
from backend.errors import ResourceExhausted
from tests.backend.conftest import Chips

GIB, MIB = 1 << 30, 1 << 20


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
    assert padded_bytes(TensorType((8388608, 8, 4), np.dtype(np.int32))) == 1 * GIB


@pytest.mark.parametrize("shape", [(), (1,), (7,), (300,), (3, 3, 1, 32), (128, 28, 28, 1), (5, 1, 1)])
def test_no_buffer_is_smaller_than_its_data(shape: tuple[int, ...]) -> None:
    kind = TensorType(shape, np.dtype(np.float32))
    assert kind.nbytes <= padded_bytes(kind) <= max(4096, 128 * kind.nbytes)


def test_donated_arguments_are_counted_once(chips: Chips) -> None:
    x = np.zeros((1024, 1024), np.float32)
    plain = chips.compile(lambda x: x * 2, x).memory
    donating = chips.compile(lambda x: x * 2, x, donate_argnums=0).memory
    assert (plain.argument_bytes, plain.output_bytes, plain.alias_bytes) == (4 * MIB, 4 * MIB, 0)
    assert donating.alias_bytes == 4 * MIB


def test_temporaries_that_are_not_live_together_share_memory(chips: Chips) -> None:
    x = np.zeros((1024, 1024), np.float32)
    deep = chips.compile(lambda x: jnp.sum(((x @ x) @ x) @ x), x).memory
    assert 4 * MIB <= deep.temp_bytes < 12 * MIB


def test_a_program_too_large_for_hbm_is_refused_with_sizes_and_the_line(chips: Chips) -> None:
    def too_large(x):
        return (x[:, None] @ x[None, :]).sum() + jnp.sort(jnp.outer(x, x), axis=0)[0, 0]

    import jax

    with pytest.raises(ResourceExhausted) as refused:
        chips.compile(too_large, jax.ShapeDtypeStruct((80_000,), jnp.float32))
    assert "Ran out of memory in memory space hbm" in refused.value.message
    assert "of 15.48G hbm" in refused.value.message
    assert "float32[80000, 80000]" in refused.value.message
    assert "test_memory.py" in refused.value.message
