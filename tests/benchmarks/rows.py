"""What is measured, and what it should come to. One row a comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A workload on ``cores`` cores, beside ``against``: "jax", "numpy" or "8" (our own step on 8 cores).

    ``bar`` is the least ratio (their time by ours); for modes "blocking" and "pipelined" the most seconds a call.
    """

    name: str
    title: str
    workload: str
    cores: int
    bar: float
    rounds: int = 5
    against: str = "jax"
    mode: str = "step"


ROWS = {
    row.name: row
    for row in (
        Row("cnn", "MNIST CNN train step, batch 1024", "mnist_cnn", 8, 2.5),
        Row("cnn-64", "the same on 64 cores", "mnist_cnn", 64, 2.5),
        Row("cnn-512", "the same on 512 cores, beside our own 8", "mnist_cnn", 512, 1 / 1.3, against="8"),
        Row(
            "pod",
            "MNIST CNN train step, batch 8192, on 2048 cores, beside our own 8",
            "mnist_cnn_8192",
            2048,
            1 / 1.5,
            rounds=3,
            against="8",
        ),
        Row("resnet", "ResNet-50 train step, 64x64, batch 64", "resnet50", 8, 2.0, rounds=3),
        Row("transformer", "transformer train step, 4096 tokens", "transformer", 8, 2.0),
        Row("lstm", "LSTM train step, 64 steps, width 256", "lstm", 8, 0.7, rounds=9),
        Row("elementwise", "5 elementwise operations on 32 M float32", "elementwise", 8, 1.0, rounds=15),
        Row("gemm", "bf16 GEMM 4096, beside numpy's in float32", "gemm", 8, 0.95, rounds=7, against="numpy"),
        Row("blocking", "small jit call, blocking", "small", 8, 250e-6, mode="blocking"),
        Row("pipelined", "small jit call, pipelined", "small", 8, 1 / 6000, mode="pipelined"),
    )
}

COMPILE_BAR = 1.3
"""Most compile time, and most peak host memory, beside JAX's."""
