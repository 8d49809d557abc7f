"""Sums that stay in registers are those of windows that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from backend.tensorcore.convolution_code import COLUMNS, MOST_ROWS, contracting, pieces, sliding


def aligned(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(np.float32)


@pytest.mark.parametrize("count", range(1, 40))
def test_rows_are_cut_into_tiles_without_one_that_is_too_small(count: int) -> None:
    found = pieces(count)
    assert sum(found) == count
    assert max(found) <= MOST_ROWS
    assert min(found) >= min(count, 3 if count == 7 else 4)


@pytest.mark.parametrize("positions", [1, 4, 7, 9, 12, 13])
def test_windows_meet_a_block_of_columns(positions: int) -> None:
    x = aligned((2, 5, positions + 2, 8), 0)
    w = aligned((6, 8, COLUMNS), 1)
    out = np.full((2, 3, positions, 2 * COLUMNS), np.nan, np.float32)
    taps = np.array([dy * x.strides[1] + dx * x.strides[2] for dy in (0, 2) for dx in range(3)], np.int64)
    code = sliding(positions)
    assert code is not None
    half = out[..., COLUMNS:]
    code(
        x.ctypes.data, w.ctypes.data, half.ctypes.data, taps.ctypes.data, len(taps), 8, 2, 3,
        *x.strides[:3], *out.strides[:3],
    )  # fmt: skip
    windows = sliding_window_view(x, (3, 3), axis=(1, 2))[..., ::2, :].transpose(0, 1, 2, 4, 5, 3)
    assert (half == windows.reshape(2, 3, positions, -1) @ w.reshape(-1, COLUMNS)).all()
    assert np.isnan(out[..., :COLUMNS]).all()


@pytest.mark.parametrize("features", [4, 5, 13, 32])
def test_what_two_operands_have_in_common_is_added_up_over_their_positions(features: int) -> None:
    x, w = aligned((3, 6, 7, features), 2), aligned((3, 4, 5, 2 * COLUMNS), 3)
    sums = np.ones((9, 2, features, COLUMNS), np.float32)
    taps = np.array([dy * x.strides[1] + dx * x.strides[2] for dy in range(3) for dx in range(3)], np.int64)
    code = contracting(features)
    assert code is not None
    code(
        x.ctypes.data, w.ctypes.data, sums.ctypes.data, taps.ctypes.data, 9, 2, 3, 2, 2, 5,
        x.strides[0], 2 * x.strides[1], *x.strides[1:3],
        w.strides[0], 2 * w.strides[1], *w.strides[1:3],
        *sums.strides[:2],
    )  # fmt: skip
    windows = sliding_window_view(x, (4, 5), axis=(1, 2))
    wanted = np.einsum("nyxfhw,nhwo->yxfo", windows, w, optimize=True)
    assert (sums == 1 + wanted.reshape(9, features, 2, COLUMNS).transpose(0, 2, 1, 3)).all()
