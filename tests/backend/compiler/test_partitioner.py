"""The partitioner process: it never hangs, and leaves nothing behind, also when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

from backend.compiler.partitioner import remove_leftovers, wait_for_dump


@pytest.fixture
def hanging() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def is_gone(process: subprocess.Popen[bytes]) -> bool:
    return not Path(f"/proc/{process.pid}").exists()


def test_a_child_that_hangs_is_ended_when_its_time_is_up(
    hanging: subprocess.Popen[bytes], pipe: tuple[int, int], tmp_path: Path
) -> None:
    with pytest.raises(TimeoutError, match=r"not done after 0\.1 s and was ended"):
        wait_for_dump(hanging.pid, tmp_path, pipe[0], 0.1)
    os.close(pipe[1])
    assert is_gone(hanging)


def test_a_child_that_nobody_waits_for_any_more_is_ended(
    hanging: subprocess.Popen[bytes], pipe: tuple[int, int], tmp_path: Path
) -> None:
    os.close(pipe[1])
    wait_for_dump(hanging.pid, tmp_path, pipe[0], 10)
    assert is_gone(hanging)


def test_folders_of_dead_partitioners_are_removed_and_those_of_living_ones_left(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale = tmp_path / f"tpuctl-partition-{ended.pid}-abc"
    living, other = tmp_path / f"tpuctl-partition-{os.getpid()}-abc", tmp_path / "other-1-abc"
    for folder in (stale, living, other):
        folder.mkdir()
        (folder / "dump").write_text("")
    remove_leftovers(tmp_path)
    assert set(tmp_path.iterdir()) == {living, other}
