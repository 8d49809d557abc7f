"""What the MNIST script takes on its command line. It imports nothing heavy: `run job` reads a line with it at once."""

from __future__ import annotations

import argparse
from pathlib import Path

EPOCHS = 4
BATCH_SIZE, SAMPLE_BATCH_SIZE = 1024, 256


def parser() -> argparse.ArgumentParser:
    """The script's command line; it ends the process for a wrong option, as argparse does."""
    parser = argparse.ArgumentParser(
        "mnist",
        description="MNIST on a TPU: a convolutional network, trained on all cores at once.",
        allow_abbrev=False,
    )
    parser.add_argument("--epochs", type=count, default=EPOCHS, help=f"times through the training digits ({EPOCHS})")
    sizes = f"over all cores ({BATCH_SIZE}; {SAMPLE_BATCH_SIZE} on the small sample; at least one digit a core)"
    parser.add_argument("--batch-size", "--batch", type=count, help=sizes)
    parser.add_argument("--steps", type=count, help="train so many steps only, without a test, and measure them")
    parser.add_argument("--data", type=folder, help="folder with mnist.npz or the four MNIST IDX files")
    return parser


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def folder(text: str) -> Path:
    """A folder that is there."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {text}")
    return Path(text)
