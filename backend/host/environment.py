"""What a process on the TPU VM sees in its environment, so that JAX and other stacks find the slice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from backend.host.address import Address


def worker_environment(slice_dir: Path, accelerator_type: str, name: str, zone: str, job: str | None) -> dict[str, str]:
    """The variables of worker 0 of a slice, attached over the Unix socket in ``slice_dir``."""
    return {
        "TPUCTL_SLICE": f"unix://{slice_dir}/link.sock",
        **_common(accelerator_type, name, zone),
        **({"TPUCTL_JOB": job} if job else {}),
    }


def tcp_environment(address: Address, token: str, accelerator_type: str, name: str, zone: str) -> dict[str, str]:
    """The same over the slice's TCP endpoint, which asks for the slice's ``token``."""
    return {
        "TPUCTL_SLICE": f"tcp://{address}",
        "TPUCTL_SLICE_TOKEN": token,
        **_common(accelerator_type, name, zone),
    }


def _common(accelerator_type: str, name: str, zone: str) -> dict[str, str]:
    return {
        "JAX_PLATFORMS": "tpu,cpu",
        "KERAS_BACKEND": "jax",
        "TPU_NAME": name,
        "TPU_ZONE": zone,
        "TPU_ACCELERATOR_TYPE": accelerator_type,
        "TPU_WORKER_ID": "0",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_SKIP_MDS_QUERY": "1",
    }


USER_CHOICES = frozenset({"KERAS_BACKEND"})
"""Variables that a user's own setting wins over."""


_NOT_THE_RUNTIMES = ("TPUCTL_SLICE", "TPUCTL_JOB", "TPU_", "JAX_", "XLA_")
"""What a user sets for their own programs; a slice is the same whoever started it."""


def runtime_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a slice's runtime, which has its own thread pool over single-threaded BLAS."""
    kept = {name: value for name, value in given.items() if not name.startswith(_NOT_THE_RUNTIMES)}
    return kept | {"OPENBLAS_NUM_THREADS": "1"}


def merged(user: dict[str, str], worker: dict[str, str]) -> dict[str, str]:
    """The user's environment with the worker's on top, but for USER_CHOICES."""
    kept = {name: user[name] for name in USER_CHOICES & user.keys()}
    return user | worker | kept
