"""Which reference models there are, how each is started and what it takes."""

from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """One reference model: its module is run with ``python -m``.

    ``options`` are those its script understands, and ``options_module`` the light module whose ``parser()`` reads them;
    ``packages`` are those it imports. ``measured`` are the options with which slices are compared.
    """

    module: str
    summary: str
    accelerator_type: str
    options_module: str
    options: tuple[str, ...]
    packages: tuple[str, ...]
    measured: tuple[str, ...] = ()


MODELS = {
    "mnist": Model(
        module="tpuctl.zoo.mnist",
        summary="handwritten digits: a small convolutional network",
        accelerator_type="v3-8",
        options_module="tpuctl.zoo.mnist_options",
        options=("--epochs", "--batch-size", "--batch", "--steps", "--data", "--help"),
        packages=("jax", "keras", "matplotlib", "mlxtend", "h5py"),
        measured=("--steps", "4", "--batch-size", "8192"),
    ),
}
