"""The training step of the MNIST CNN with a global batch of 8192."""

from __future__ import annotations

from typing import Any

from workloads import mnist_cnn


def setup() -> tuple[Any, Any, Any]:
    """The jitted step, its state and its data."""
    mnist_cnn.BATCH = 8192
    return mnist_cnn.setup()
