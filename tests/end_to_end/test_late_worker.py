"""A worker that does not come to jax.distributed.initialize() is named to all who wait there, and the job goes on."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TRAIN = """
import os, sys, time, pathlib
import jax
if os.environ["TPUCTL_PROCESS"].startswith(sys.argv[1]):
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.1)
jax.distributed.initialize()
print(jax.device_count())
"""


@pytest.mark.parametrize("late", [0, 1])
def test_a_worker_late_for_initialize_is_named(two_hosts: Any, tmp_path: Any, late: int) -> None:
    go_on = tmp_path / "go-on"
    two_hosts.start("train", sys.executable, "-c", TRAIN, str(late), str(go_on))
    text = f"worker {late} has not come to jax.distributed.initialize()"
    deadline = time.monotonic() + 60
    while two_hosts.job("train").trouble is None or text not in two_hosts.job("train").trouble:
        assert time.monotonic() < deadline, two_hosts.printed("train", "stderr")
        time.sleep(0.2)
    said = two_hosts.printed("train", "stderr")
    assert all(any(text in line for line in lines) for lines in said.values()), said
    go_on.touch()
    assert two_hosts.wait("train", 60).exit_code == 0, two_hosts.printed("train", "stderr")
