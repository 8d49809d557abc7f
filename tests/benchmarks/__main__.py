"""How fast is a slice, beside JAX's CPU backend on as many forced host devices?

``python tests/benchmarks [ROW ...]``: both sides run the same script on the same machine and take turns, step by step.
Medians, and the median of the ratios of neighbouring runs, are printed; then compile times and memory. With
``--profile`` the time of each kernel of a step is shown instead.

Compile time is that of ``jit(f).lower(...).compile()`` in a fresh script; the slice has been up since before the script
started. Peak memory is that of the script, and on our side of the slice's runtime with its helpers as well, from the
script's start to the end of its second step; shared pages count once.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import launches
from profiling import show
from ready import seconds_to_ready
from rich.console import Console
from rich.table import Table
from rows import COMPILE_BAR, ROWS, Row
from sides import Side, on_cpu, on_slice

READY, LAUNCHES = "ready", "launches"
WIDTH = 150


@dataclass(frozen=True)
class Outcome:
    """Medians in seconds, and the median ratio of neighbours (theirs by ours)."""

    ours: float
    theirs: float
    ratio: float
    compile_seconds: tuple[float, float]
    peak_bytes: tuple[int, int]


def compare(row: Row, rounds: int) -> Outcome:
    """Run a row, the two sides in turns."""
    with on_slice(row.workload, row.mode, row.cores) as ours, _other(row) as theirs:
        pairs = [(ours.run(), theirs.run()) for _ in range(rounds)]
    mine, other = zip(*pairs, strict=True)
    return Outcome(
        statistics.median(mine),
        statistics.median(other),
        statistics.median(b / a for a, b in pairs),
        (ours.compile_seconds, theirs.compile_seconds),
        (ours.peak_bytes, theirs.peak_bytes),
    )


def _other(row: Row) -> AbstractContextManager[Side]:
    if row.against == "8":
        return on_slice(row.workload, row.mode, 8)
    if row.against == "numpy":
        return on_cpu("gemm_numpy", row.mode, 1)
    return on_cpu(row.workload, row.mode, row.cores)


def speed_cells(row: Row, outcome: Outcome) -> list[str]:
    """A row of the table of times."""
    if row.mode != "step":
        met = outcome.ours <= row.bar
        return [
            row.title,
            str(row.cores),
            _call(row, outcome.ours),
            _call(row, outcome.theirs),
            f"{outcome.ratio:.2f}x",
            _call(row, row.bar),
            _verdict(met),
        ]
    return [
        row.title,
        str(row.cores),
        _seconds(outcome.ours),
        _seconds(outcome.theirs),
        f"{outcome.ratio:.2f}x",
        f"{row.bar:.2f}x",
        _verdict(outcome.ratio >= row.bar),
    ]


def cost_cells(row: Row, outcome: Outcome) -> list[str]:
    """A row of the table of compile times and memory."""
    cells = [row.title]
    for (ours, theirs), unit in ((outcome.compile_seconds, _seconds), (outcome.peak_bytes, _megabytes)):
        ratio = ours / theirs if theirs else 0.0
        cells += [unit(ours), unit(theirs), f"{ratio:.2f}", _verdict(ratio <= COMPILE_BAR)]
    return cells


def _call(row: Row, seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if row.mode == "blocking" else f"{1 / seconds:,.0f} /s"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def _verdict(met: bool) -> str:
    return "yes" if met else "no"


def main() -> None:
    """Print the tables."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then, too
    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"which to run (all): {', '.join([*ROWS, READY, LAUNCHES])}"
    )
    parser.add_argument("--rounds", type=int, help="turns of each row, instead of its own number")
    parser.add_argument("--profile", action="store_true", help="show the time of each kernel of a step instead")
    options = parser.parse_args()
    if unknown := set(options.rows) - {*ROWS, READY, LAUNCHES}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    names = options.rows or [*ROWS, READY, LAUNCHES]
    chosen = [ROWS[name] for name in names if name in ROWS]
    console = Console(width=WIDTH)
    if options.profile:
        for row in chosen:
            show(row.workload, row.cores)
        return
    speed = Table(title=f"{machine()}; medians, both sides alternating")
    for column in ("workload", "cores", "slice", "other side", "ratio", "bar", "met"):
        speed.add_column(column, justify="left" if column == "workload" else "right")
    cost = Table(title="compile time and peak host memory, slice beside JAX")
    for column in ("workload", "compile", "JAX's", "ratio", "met", "memory", "JAX's", "ratio", "met"):
        cost.add_column(column, justify="left" if column == "workload" else "right")
    for row in chosen:
        outcome = compare(row, options.rounds or row.rounds)
        speed.add_row(*speed_cells(row, outcome))
        if row.mode == "step" and row.against == "jax":
            cost.add_row(*cost_cells(row, outcome))
    if READY in names:
        speed.add_row("slice: create to READY", "8", _seconds(seconds_to_ready()), "-", "-", "-", "-")
    if speed.rows:
        console.print(speed)
    if cost.rows:
        console.print(cost)
    if LAUNCHES in names:
        console.print(launches.table())


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
