"""A product of two 4096 x 4096 float32 matrices in numpy, with as many BLAS threads as numpy takes."""

from __future__ import annotations

from typing import Any

import numpy as np

SIZE = 4096


def setup() -> tuple[Any, Any, Any]:
    """The product, no state, and its data."""
    random = np.random.RandomState(0)
    a, b = (random.rand(SIZE, SIZE).astype(np.float32) for _ in range(2))
    return (lambda _, a, b: ((), a @ b)), (), (a, b)
