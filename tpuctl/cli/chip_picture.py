"""How does a slice look? Its chips as they lie on the torus, with cores and HBM; of a large one, a mark a chip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backend.hardware.accelerator_types import AcceleratorType, accelerator_type
from backend.hardware.locations import CoreLocation, core_locations
from tpuctl.cli.bars import bar, share
from tpuctl.cli.units import bytes_text

Core = dict[str, Any]
DRAWN_CHIPS = 8
"""Slices of more chips than this are drawn small."""


def slice_picture(found: Mapping[str, Any]) -> RenderableType:
    """``found`` is a slice's telemetry, in which that of cores may be missing."""
    kind = accelerator_type(found["type"], found.get("topology") or None)
    num_slices, cores = found.get("numSlices", 1), found.get("perCore", [])
    if num_slices > 1 or kind.num_chips > DRAWN_CHIPS or len(kind.shape) > 2:
        from tpuctl.cli.chip_map import chip_map

        return chip_map(kind, num_slices, cores)
    return chip_picture(kind, cores)


def chip_picture(kind: AcceleratorType, cores: Sequence[Core]) -> Table:
    """A grid of chips, x to the right and y down."""
    telemetry = {core["id"]: core for core in cores}
    chips: dict[tuple[int, int, int], list[CoreLocation]] = defaultdict(list)
    for location in core_locations(kind):
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
