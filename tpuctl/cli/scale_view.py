"""How does the comparison of `run job --scale` look? A row a slice, with bars of efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.cli.bars import PARTS
from tpuctl.cli.units import UNKNOWN, seconds_text, share_text

BAR_CELLS = 12
NOTE = (
    "Step time, speed-up and efficiency are of the device's clock, simulated by the chips' timing model. "
    "Host step is measured on this machine."
)


def scale_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("TYPE", "TOPOLOGY", "CHIPS", "DEVICES", "DEVICE STEP", "SPEED-UP", "EFFICIENCY", "", "HOST STEP"):
        numeric = heading not in ("TYPE", "TOPOLOGY", "")
        table.add_column(heading, no_wrap=True, justify="right" if numeric else "left")
    for row in rows:
        speed_up, efficiency = row["speedUp"], row["efficiency"]
        table.add_row(
            Text(row["type"], style="bold"),
            row["topology"],
            f"{row['chips']:,}",
            f"{row['devices']:,}",
            seconds_text(row["deviceStepSeconds"]),
            UNKNOWN if speed_up is None else f"{speed_up:.2f}x",
            share_text(efficiency),
            _bar(efficiency),
            seconds_text(row["hostStepSeconds"]),
        )
    return Group(table, Text(NOTE, style="dim"))


def _bar(efficiency: float | None) -> Text:
    """Full at 100%: the more, the greener."""
    if efficiency is None:
        return Text("")
    eighths = round(min(efficiency, 1.0) * BAR_CELLS * 8)
    filled = "█" * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")
    colour = "green" if efficiency >= 0.75 else "yellow" if efficiency >= 0.25 else "red"
    return Text.assemble((filled, f"{colour} on grey23"), (" " * (BAR_CELLS - len(filled)), "on grey23"))
