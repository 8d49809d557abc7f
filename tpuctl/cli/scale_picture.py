"""The picture of `run job --scale`: step time on both clocks, and speed-up beside the ideal one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from tpuctl.cli.units import seconds_text

INK, FAINT, GRID = "#1f2937", "#9ca3af", "#e5e7eb"
DEVICE, HOST = "#2563eb", "#f97316"


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """``rows`` are those of scale.comparison. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    figure(rows).savefig(path, dpi=150, facecolor="white")


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    made = Figure(figsize=(12, 4.8), layout="constrained")
    times, speeds = made.subplots(1, 2)
    _times(times, rows)
    _speeds(speeds, [row for row in rows if row["speedUp"] is not None])
    for axes in (times, speeds):
        _dress(axes, rows)
    return made


def _times(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Time of a step", loc="left", color=INK, fontweight="bold")
    for name, label, colour in (
        ("deviceStepSeconds", "device clock (simulated)", DEVICE),
        ("hostStepSeconds", "this host (measured)", HOST),
    ):
        points = [(row["devices"], row[name]) for row in rows if row[name]]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
            for x, y in points:
                axes.annotate(
                    seconds_text(y), (x, y), (0, 8), textcoords="offset points", ha="center", color=colour, fontsize=9
                )
    axes.set_yscale("log")
    axes.margins(y=0.2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, labelcolor=INK)


def _speeds(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Speed-up on the device clock (simulated)", loc="left", color=INK, fontweight="bold")
    if not rows:
        return
    devices = [row["devices"] for row in rows]
    ideal = [count / devices[0] for count in devices]
    axes.plot(devices, ideal, color=FAINT, linestyle="--", label="ideal")
    axes.plot(devices, [row["speedUp"] for row in rows], marker="o", color=DEVICE, label="this job")
    for row in rows:
        axes.annotate(
            f"{row['speedUp']:.1f}x, {row['efficiency']:.0%}",
            (row["devices"], row["speedUp"]),
            (0, -14),
            textcoords="offset points",
            ha="center",
            color=DEVICE,
            fontsize=9,
        )
    axes.set_yscale("log", base=2)
    axes.margins(y=0.2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.legend(frameon=False, labelcolor=INK)


def _dress(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_xscale("log", base=2)
    axes.margins(x=0.12)
    axes.set_xticks([row["devices"] for row in rows], [f"{row['type']}\n{row['devices']:,} devices" for row in rows])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
