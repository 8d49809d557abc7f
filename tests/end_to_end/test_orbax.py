"""A job on two hosts saves its sharded state with Orbax, and another goes on from it bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("orbax.checkpoint")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SCRIPT = Path(__file__).with_name("scripts") / "train_orbax.py"


def test_a_two_host_job_resumes_bit_for_bit(two_hosts: Any, tmp_path: Path) -> None:
    def train(name: str, *arguments: object) -> dict[int, list[str]]:
        two_hosts.start(name, sys.executable, str(SCRIPT), *map(str, arguments))
        assert two_hosts.wait(name).exit_code == 0, two_hosts.printed(name, "stderr")
        found: dict[int, list[str]] = two_hosts.printed(name)
        return found

    through = train("through", tmp_path / "saved", 0, 5)
    assert list(through) == [0, 1]
    assert len(through[0]) == 6
    assert through[0][:5] == through[1][:5]  # the loss is the same everywhere
    assert (tmp_path / "saved" / "3").is_dir()
    resumed = train("resumed", tmp_path / "saved", 3, 5)
    for worker in (0, 1):
        assert resumed[worker] == through[worker][3:]
