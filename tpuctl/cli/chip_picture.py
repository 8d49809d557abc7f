"""A slice's chips as they lie on the torus, with their cores and HBM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backend.hardware.accelerator_types import accelerator_type
from backend.hardware.locations import CoreLocation, core_locations
from tpuctl.cli.bars import bar, share
from tpuctl.cli.units import bytes_text

Core = dict[str, Any]


def chip_picture(type_name: str, cores: Sequence[Core]) -> Table:
    """A grid of chips, x to the right and y down; ``cores`` are the telemetry's, and may be missing."""
    telemetry = {core["id"]: core for core in cores}
    chips: dict[tuple[int, int, int], list[CoreLocation]] = defaultdict(list)
    for location in core_locations(accelerator_type(type_name)):
        chips[location.coords].append(location)
    grid = Table.grid(padding=(0, 1, 0, 0))
    for y in sorted({coords[1] for coords in chips}):
        row = sorted(coords for coords in chips if coords[1] == y)
        cores_of = {coords: [telemetry.get(core.id, {"id": core.id}) for core in chips[coords]] for coords in row}
        grid.add_row(*(_chip(coords, of_chip) for coords, of_chip in cores_of.items()))
    return grid


def _chip(coords: tuple[int, int, int], cores: Sequence[Core]) -> Panel:
    lines = Table.grid(padding=(0, 1, 0, 0))
    for core in cores:
        used, limit = core.get("hbmBytesInUse"), core.get("hbmBytesLimit")
        lines.add_row(f"core {core['id']}", bar(share(used, limit), 8), f"{bytes_text(used)} of {bytes_text(limit)}")
    x, y, _ = coords
    return Panel(lines, title=Text(f"chip {x},{y}", style="bold"), title_align="left", box=box.ROUNDED, expand=False)
