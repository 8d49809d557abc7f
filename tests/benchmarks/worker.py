"""One side of a benchmark: a process that runs a workload when it is told to.

``python worker.py WORKLOAD MODE``: on standard output one line of JSON when the workload is compiled and warm, then the
seconds of a run for each line on standard input. Modes: ``step``, one step, waited for; ``blocking``, the mean of many
small calls that are each waited for; ``pipelined``, the same with only the last one waited for.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

CALLS = 1000
WARM_UPS = 2


class Workload:
    """A workload with its state."""

    def __init__(self, name: str) -> None:
        module = importlib.import_module(f"workloads.{name}")
        self.calls = getattr(module, "CALLS", CALLS)
        self.function, self.state, self.data = module.setup()

    def compile(self) -> tuple[float, float]:
        """Seconds of tracing and lowering, and of compiling."""
        if not hasattr(self.function, "lower"):
            return 0.0, 0.0
        start = time.perf_counter()
        lowered = self.function.lower(self.state, *self.data)
        middle = time.perf_counter()
        self.function = lowered.compile()
        return middle - start, time.perf_counter() - middle

    def step(self) -> float:
        """Seconds of one step."""
        start = time.perf_counter()
        self.state, value = self.function(self.state, *self.data)
        wait((self.state, value))
        return time.perf_counter() - start

    def blocking(self) -> float:
        """Seconds of one of many calls."""
        function, state, data = self.function, self.state, self.data
        start = time.perf_counter()
        for _ in range(self.calls):
            function(state, *data)[1].block_until_ready()
        return (time.perf_counter() - start) / self.calls

    def pipelined(self) -> float:
        """Seconds of one of many calls."""
        function, state, data = self.function, self.state, self.data
        start = time.perf_counter()
        for _ in range(self.calls):
            _, value = function(state, *data)
        value.block_until_ready()
        return (time.perf_counter() - start) / self.calls


def wait(values: Any) -> None:
    """Until every array is there."""
    if "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(values)


def devices() -> str:
    """Platform and number of devices."""
    if "jax" not in sys.modules:
        return "numpy"
    found = sys.modules["jax"].devices()
    return f"{found[0].platform} {len(found)}"


def main(name: str, mode: str) -> None:
    """Set up, compile, warm up, then one run a line."""
    sys.path.insert(0, str(Path(__file__).parent))
    workload = Workload(name)
    print("set up", flush=True)
    trace, compilation = workload.compile() if mode == "step" else (0.0, 0.0)
    run = getattr(workload, mode)
    warm = [run() for _ in range(WARM_UPS)]
    print(json.dumps({"devices": devices(), "trace": trace, "compile": compilation, "warm": warm}), flush=True)
    for _ in sys.stdin:
        print(run(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
