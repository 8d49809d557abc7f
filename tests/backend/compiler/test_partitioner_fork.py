"""The partitioner as a copy of the process that uses it: it works, has little memory of its own, and ends with it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("jaxlib")

USER = """
import json, os, pathlib, signal
from backend.compiler.partition import PARTITIONER
from jaxlib import xla_client

secret = os.open(os.devnull, os.O_RDONLY)
PARTITIONER.fork()
process = PARTITIONER._process
module = b'''module @double attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
      -> (tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) {
    %y = stablehlo.add %x, %x : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}'''
options = xla_client.CompileOptions()
options.executable_build_options.num_partitions = 4
options.executable_build_options.use_spmd_partitioning = True
options = options.SerializeAsString()
first, _ = PARTITIONER.partition(module, options, 4)
folder = pathlib.Path(f"/proc/{process.pid}")
memory = dict(line.split(":") for line in (folder / "smaps_rollup").read_text().splitlines()[1:])
seen = {
    "title": (folder / "cmdline").read_text().strip(chr(0)),
    "files": len(list((folder / "fd").iterdir())),
    "own_kilobytes": int(memory["Private_Dirty"].split()[0]),
}
os.kill(process.pid, signal.SIGKILL)
process.wait()
second, _ = PARTITIONER.partition(module, options, 4)
again = PARTITIONER._process
PARTITIONER.close()
print(json.dumps({**seen, "first": len(first), "same": first == second, "ends": [process.poll(), again.poll()]}))
"""


def test_a_copy_partitions_shares_memory_is_replaced_when_it_was_killed_and_ends() -> None:
    user = subprocess.run([sys.executable, "-c", USER], capture_output=True, text=True, timeout=60, check=True)
    seen = json.loads(user.stdout)
    assert seen["title"] == "tpuctl partitioner"
    assert seen["files"] == 3
    assert seen["own_kilobytes"] < 15_000
    assert seen["first"] > 0
    assert seen["same"]
    assert seen["ends"] == [-9, 0]
