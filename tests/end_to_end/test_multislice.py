"""Gradients are summed over two slices that are joined over the data-centre network, in the time that it takes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from backend.hardware import generation
from backend.ici.timing import DCN_LATENCY_SECONDS

pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

GRADIENT_BYTES = 4 << 20
SUM_GRADIENTS = f"""
import jax, numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tpuctl import metrics

jax.distributed.initialize()
devices = mesh_utils.create_hybrid_device_mesh((8,), (2,))
mesh = Mesh(devices.reshape(2, 8), ("slice", "core"))
print([device.slice_index for device in devices.flat], flush=True)
rows = NamedSharding(mesh, P(("slice", "core")))
size = {GRADIENT_BYTES // 4}
ones = jax.make_array_from_callback((16 * size,), rows, lambda part: np.ones(size, np.float32))

def seconds_of(axes):
    # a device's clock: of the sum over the gradients of all devices along the axes
    step = jax.jit(jax.shard_map(lambda part: jax.lax.psum(part, axes), mesh=mesh, in_specs=rows.spec,
                                 out_specs=rows.spec))
    before = metrics.device_seconds()
    total = jax.block_until_ready(step(ones))
    took = metrics.device_seconds() - before
    print(float(total.addressable_shards[0].data[0]), flush=True)
    return took

jax.block_until_ready(ones)
within, over = seconds_of(("core",)), seconds_of(("slice", "core"))
print(over - within, flush=True)
"""


def test_the_sum_over_both_slices_takes_what_the_hosts_cards_take_longer(two_slices: Any) -> None:
    two_slices.start("sum", sys.executable, "-c", SUM_GRADIENTS)
    job = two_slices.wait("sum")
    assert job.exit_code == 0, two_slices.printed("sum", "stderr")
    assert (job.num_slices, job.hosts, job.processes) == (2, 2, 2)
    first, second = two_slices.printed("sum").values()
    assert first[0] == second[0] == str([0] * 8 + [1] * 8)
    assert first[1:3] == ["8.0", "16.0"]
    card = generation("v3").dcn_bytes_per_second_per_chip * 4
    # each of the four chips of a host sends its quarter of the sum to the other slice
    assert float(first[3]) == pytest.approx(GRADIENT_BYTES / card + DCN_LATENCY_SECONDS, rel=1e-6)
