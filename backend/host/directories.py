"""Where do a job's workers lie? Each in a directory of its own below the job's; what the job makes is shared by all."""

from __future__ import annotations

from pathlib import Path

_PREFIX = "worker-"
_ATTEMPT = "attempt-"


def attempt_directory(job: Path, attempt: int) -> Path:
    """Where an attempt of a job keeps what it makes: the first in the job's own directory."""
    return job if attempt == 1 else job / f"{_ATTEMPT}{attempt}"


def attempt_directories(job: Path) -> list[Path]:
    """Those that are there, the job's own first."""
    return [job, *sorted(path for path in job.glob(f"{_ATTEMPT}*") if path.is_dir())]


def worker_directory(job: Path, index: int) -> Path:
    return job / f"{_PREFIX}{index}"


def worker_directories(job: Path) -> list[Path]:
    """Those that are there, by their numbers."""
    found = [path for path in job.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)))


def artifacts_directory(worker: Path) -> Path:
    """Where the job of the worker in directory ``worker`` puts what it makes."""
    return worker.parent / "artifacts"
