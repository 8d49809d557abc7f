"""A worker that ends before it comes to the slice is named, and the job fails instead of waiting for it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HEAD = """
import os, sys
if os.environ["TPUCTL_PROCESS"] == "1/2":
    sys.exit(0)
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
"""
LAUNCH = """
rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
x = jax.make_array_from_callback((64,), rows, lambda part: np.arange(64, dtype=np.float32)[part])
jax.block_until_ready(jax.jit(lambda x: x.sum())(x))
"""


@pytest.mark.parametrize(
    ("body", "where"),
    [(LAUNCH, "launch jit__lambda"), ("jax.distributed.initialize()", "jax.distributed.initialize()")],
    ids=["launch", "initialize"],
)
def test_others_do_not_wait_for_a_worker_that_has_ended(two_hosts: Any, body: str, where: str) -> None:
    two_hosts.start("train", sys.executable, "-c", HEAD + body)
    job = two_hosts.wait("train", 60)
    assert (job.state, job.exit_code) == ("FAILED", None)
    assert job.error is not None
    assert job.error.message.startswith("worker 1 has ended, or was never started")
    assert where in job.error.message
    assert any("worker 1 has ended" in line for line in two_hosts.printed("train", "stderr")[0])
