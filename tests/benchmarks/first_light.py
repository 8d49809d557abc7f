"""How fast is a slice, beside JAX's CPU backend on as many forced host devices?

Both sides run the same script on the same machine and take turns; medians and the ratio of neighbours are printed.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

WORKLOAD = Path(__file__).with_name("workload.py")
ROUNDS = {"mnist-step": 5, "small-blocking": 5, "small-pipelined": 5}
SLICES = 3


class Side:
    """A workload process that runs when told to."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKLOAD), name],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.description = self._read()

    def run(self) -> float:
        """Seconds of one run."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("a workload process ended; its error is above")
        return line


def compare(name: str, attached: dict[str, str]) -> tuple[float, float, float]:
    """Median seconds on the slice and on the CPU backend, and the median ratio of neighbouring runs."""
    on_cpu = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    slice_side, cpu_side = Side(name, attached), Side(name, on_cpu)
    assert slice_side.description == "ready tpu 8", slice_side.description
    assert cpu_side.description == "ready cpu 8", cpu_side.description
    pairs = [(slice_side.run(), cpu_side.run()) for _ in range(ROUNDS[name])]
    slice_side.close()
    cpu_side.close()
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs), statistics.median(b / a for a, b in pairs)


def tpuctl(*arguments: str) -> None:
    """Run a command of ours, whatever comes of it."""
    subprocess.run([sys.executable, "-m", "tpuctl", *arguments], check=False, capture_output=True)


def attach(name: str) -> dict[str, str]:
    """The environment that ``tpuctl attach`` prints."""
    from tpuctl.client import connect

    with connect() as client:
        return dict(client.get_slice(name).environment)


def seconds_to_ready(name: str) -> float:
    """From asking for a slice to READY, by the API."""
    from tpuctl.api.nodes import Node
    from tpuctl.client import connect

    with connect() as client:
        start = time.perf_counter()
        client.wait(client.create_node(name, Node(accelerator_type="v3-8", runtime_version="tpu-ubuntu2204-base")))
        return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    console = Console()
    table = Table(title=f"{machine()}; medians, both sides alternating")
    for column in ("workload", "v3-8 slice", "JAX CPU, 8 devices", "ratio"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"TPUCTL_HOME": home, "TPUCTL_PORT": "0"}
        try:
            created = [seconds_to_ready(f"bench-{number}") for number in range(SLICES)]
            attached = attach("bench-0")
            ours, theirs, ratio = compare("mnist-step", attached)
            table.add_row("MNIST CNN train step, batch 1024", f"{ours:.2f} s", f"{theirs:.2f} s", f"{ratio:.1f}x")
            ours, theirs, ratio = compare("small-blocking", attached)
            table.add_row("small jit call, blocking", f"{ours * 1e6:.0f} us", f"{theirs * 1e6:.0f} us", f"{ratio:.2f}x")
            ours, theirs, ratio = compare("small-pipelined", attached)
            table.add_row("small jit call, pipelined", f"{1 / ours:,.0f} /s", f"{1 / theirs:,.0f} /s", f"{ratio:.2f}x")
            table.add_row("slice: create to READY", f"{statistics.median(created):.2f} s", "-", "-")
        finally:
            for number in range(SLICES):
                tpuctl("delete", "slice", f"bench-{number}", "--yes")
            tpuctl("down")
    console.print(table)


def machine() -> str:
    """Processor and number of cores."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
