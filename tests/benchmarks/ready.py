"""How long does a slice take from being asked for to READY? By the API of a control plane of its own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

SLICES = 3


def seconds_to_ready() -> float:
    """The median of a few slices."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"TPUCTL_HOME": home, "TPUCTL_PORT": "0"}
        os.environ |= environment
        try:
            return statistics.median([_create(f"bench-{number}") for number in range(SLICES)])
        finally:
            for number in range(SLICES):
                _tpuctl("delete", "slice", f"bench-{number}", "--yes")
            _tpuctl("down")
            for name in environment:
                del os.environ[name]


def _create(name: str) -> float:
    from tpuctl.api.nodes import Node
    from tpuctl.client import connect

    with connect() as client:
        start = time.perf_counter()
        client.wait(client.create_node(name, Node(accelerator_type="v3-8", runtime_version="tpu-ubuntu2204-base")))
        return time.perf_counter() - start


def _tpuctl(*arguments: str) -> None:
    """Run a command of ours, whatever comes of it."""
    subprocess.run([sys.executable, "-m", "tpuctl", *arguments], check=False, capture_output=True)
