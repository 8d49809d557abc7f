"""How does a slice look? Its chips as they lie on the torus, with cores and HBM; of a large one, a mark a chip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backend.hardware.accelerator_types import AcceleratorType, accelerator_type
from backend.hardware.locations import CoreLocation, core_locations
from tpuctl.cli.bars import bar, share
from tpuctl.cli.units import bytes_text

Core = dict[str, Any]
Place = tuple[int, ...]
"""Slice, x, y, z."""
DRAWN_CHIPS = 8
"""Slices of more chips than this are drawn small."""


def slice_picture(found: Mapping[str, Any], width: int) -> RenderableType:
    """``found`` is a slice's telemetry, in which that of cores may be missing; ``width`` is in columns."""
    kind = accelerator_type(found["type"], found.get("topology") or None)
    num_slices, cores = found.get("numSlices", 1), found.get("perCore", [])
    picture: RenderableType
    if num_slices > 1 or kind.num_chips > DRAWN_CHIPS or len(kind.shape) > 2:
        from tpuctl.cli.chip_map import chip_map

        picture = chip_map(kind, num_slices, cores, width, failed_chips(found))
    else:
        picture = chip_picture(kind, cores, failed_chips(found))
    links = [" - ".join(fault["where"]) for fault in shown_faults(found) if fault["part"] == "link"]
    return Group(picture, Text(f"failed links: {', '.join(links)}", style="red")) if links else picture


def shown_faults(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The faults of a slice's telemetry, coordinates with as many numbers as its topology has."""
    rank = len(accelerator_type(found["type"], found.get("topology") or None).shape)
    return [
        fault | {name: [_cut(place, rank) for place in fault[name]] for name in ("where", "chips") if fault.get(name)}
        for fault in found.get("faults") or []
    ]


def _cut(place: str, rank: int) -> str:
    return ",".join(place.split(",")[:rank])


def failed_chips(found: Mapping[str, Any]) -> frozenset[Place]:
    """The chips of a slice's telemetry that have failed, on their own or with their host."""
    return frozenset(
        (fault.get("sliceIndex", 0), *map(int, chip.split(",")))
        for fault in found.get("faults") or []
        if fault["part"] != "link"
        for chip in fault.get("chips") or fault["where"]
    )


def chip_picture(kind: AcceleratorType, cores: Sequence[Core], failed: Collection[Place] = ()) -> Table:
    """A grid of chips, x to the right and y down."""
    telemetry = {core["id"]: core for core in cores}
    chips: dict[tuple[int, int, int], list[CoreLocation]] = defaultdict(list)
    for location in core_locations(kind):
        chips[location.coords].append(location)
    grid = Table.grid(padding=(0, 1, 0, 0))
    for y in sorted({coords[1] for coords in chips}):
        row = sorted(coords for coords in chips if coords[1] == y)
        cores_of = {coords: [telemetry.get(core.id, {"id": core.id}) for core in chips[coords]] for coords in row}
        grid.add_row(*(_chip(coords, of_chip, (0, *coords) in failed) for coords, of_chip in cores_of.items()))
    return grid


def _chip(coords: tuple[int, int, int], cores: Sequence[Core], failed: bool) -> Panel:
    lines = Table.grid(padding=(0, 1, 0, 0))
    for core in cores:
        used, limit = core.get("hbmBytesInUse"), core.get("hbmBytesLimit")
        lines.add_row(f"core {core['id']}", bar(share(used, limit), 8), f"{bytes_text(used)} of {bytes_text(limit)}")
    x, y, _ = coords
    title = Text(f"chip {x},{y}" + " ✗ failed" * failed, style="bold red" if failed else "bold")
    style = "red" if failed else ""
    return Panel(lines, title=title, title_align="left", box=box.ROUNDED, expand=False, border_style=style)
