"""A worker that is killed in the middle of training ends the job, by name, and the slice serves the next one."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TRAIN = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))
rows = NamedSharding(mesh, P("data"))
x = jax.make_array_from_callback((64,), rows, lambda part: np.arange(64, dtype=np.float32)[part])

@jax.jit
def train_step(x):
    return x * 0.5 + x.sum() / 64

for step in range(int(sys.argv[1])):
    x = train_step(x)
    if step == 3:
        jax.block_until_ready(x)
        print("under way", flush=True)
print(float(x.sum()), flush=True)
"""


def test_a_killed_worker_is_named_and_the_slice_stays_usable(two_hosts: Any) -> None:
    two_hosts.start("train", sys.executable, "-c", TRAIN, "100000000")
    deadline = time.monotonic() + 60
    while not all("under way" in lines for lines in two_hosts.printed("train").values()):
        assert time.monotonic() < deadline, two_hosts.printed("train", "stderr")
        time.sleep(0.05)
    os.kill(two_hosts.job("train").workers[1].pid, signal.SIGKILL)
    killed = time.monotonic()
    job = two_hosts.wait("train", 30)
    assert time.monotonic() - killed < 15
    assert (job.state, job.exit_code, job.failed_worker) == ("FAILED", 137, 1)
    assert job.error is not None
    assert "worker 1 died first: signal 9" in job.error.message
    assert "train_step" in job.error.message
    assert any("worker 1" in line and "train_step" in line for line in two_hosts.printed("train", "stderr")[0])

    two_hosts.start("again", sys.executable, "-c", TRAIN, "10")
    assert two_hosts.wait("again").exit_code == 0, two_hosts.printed("again", "stderr")
    first, second = two_hosts.printed("again").values()
    assert first == second
