"""Processes and directories without a row: left by a control plane that was killed between two steps."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from backend.host.directories import attempt_directories, worker_directories
from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.store import Store

END_SECONDS = 5.0
log = logging.getLogger("tpuctl.orphans")


def sweep(store: Store, executor: LocalExecutor, home: Home) -> None:
    """End what no row speaks of, and remove its directory. Called before anything new is started."""
    with store.read() as reader:
        known = {home.slice(uid) for uid in reader.node_uids()} | {home.job(uid) for uid in reader.job_uids()}
    for directory in _directories(home):
        if directory not in known:
            log.warning("ending an orphan", extra={"directory": str(directory)})
            try:
                for place in _places(directory):
                    _end(executor, place)
                    executor.end_leftovers(place)
                executor.remove(directory)
            except OSError as error:
                log.warning("an orphan stays: %s", error.strerror, extra={"directory": str(directory)})


def _directories(home: Home) -> list[Path]:
    parents = (home.slice("-").parent, home.job("-").parent)
    children = (child for parent in parents if parent.is_dir() for child in parent.iterdir())
    return [child for child in children if child.is_dir() and not child.is_symlink()]


def _places(directory: Path) -> list[Path]:
    """Where processes of an orphan may be."""
    attempts = attempt_directories(directory)
    return [directory, *(place for attempt in attempts for place in worker_directories(attempt))]


def _end(executor: LocalExecutor, directory: Path) -> None:
    deadline = time.monotonic() + END_SECONDS
    executor.end(directory)
    while executor.is_alive(directory):
        if time.monotonic() > deadline:
            executor.end(directory, kill=True)
        time.sleep(0.02)
