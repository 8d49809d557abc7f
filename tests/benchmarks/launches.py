"""What does a launch cost, by the number of cores and of processes that drive them? A small program, waited for."""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor

from rich.table import Table
from sides import Side, running_slice

SLICES = ((8, 1), (64, 1), (512, 1), (2048, 1), (32, 2), (32, 4), (64, 8))
"""Cores of a v3 slice, and processes."""
BAR_SECONDS = 5e-3
"""Most seconds of a launch on 2048 cores."""
ROUNDS = 3


def table() -> Table:
    """One row a slice: seconds of a call that is waited for, and of one of many in flight."""
    result = Table(title=f"a launch of x + 1, replicated; at most {BAR_SECONDS * 1e3:g} ms on 2048 cores")
    for column in ("cores", "processes", "waited for", "pipelined"):
        result.add_column(column, justify="right")
    for cores, processes in SLICES:
        cells = [f"{_seconds(cores, processes, mode) * 1e3:.2f} ms" for mode in ("blocking", "pipelined")]
        result.add_row(str(cores), str(processes), *cells)
    return result


def _seconds(cores: int, processes: int, mode: str) -> float:
    """The median of a few runs; of several processes the slowest counts."""
    with running_slice(cores) as (environment, _):
        sides = [
            Side("launch", mode, environment | {"TPUCTL_PROCESS": f"{index}/{processes}"}, [], wait=False)
            for index in range(processes)
        ]
        try:
            for side in sides:
                side.get_ready()
            with ThreadPoolExecutor(processes) as pool:
                return statistics.median(max(pool.map(Side.run, sides)) for _ in range(ROUNDS))
        finally:
            for side in sides:
                side.close()
