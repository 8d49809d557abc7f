"""How full is the HBM of every chip of a large slice? One mark a chip, as the chips lie on the torus."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from backend.hardware import AcceleratorType, core_locations
from backend.hardware.torus import shape_3d
from tpuctl.cli.bars import FULL, HIGH, share
from tpuctl.cli.units import bytes_text

EMPTY, LEVELS, CROSS = "·", "▁▂▃▄▅▆▇█", "✗"
FAILED = -1.0
"""Stands for the share of a chip that does not work."""
Place = tuple[int, ...]
"""Slice, x, y, z."""


def chip_map(
    kind: AcceleratorType,
    num_slices: int,
    cores: Sequence[Mapping[str, Any]],
    width: int,
    failed: Collection[Place] = (),
) -> RenderableType:
    """Planes of chips, x to the right and y down, one for each z and slice; ``cores`` are the telemetry's.

    As many are side by side as fit into ``width`` columns.
    """
    fullest: dict[Place, float] = {}
    telemetry = {core["id"]: core for core in cores}
    for location in core_locations(kind, num_slices):
        core = telemetry.get(location.id, {})
        part = share(core.get("hbmBytesInUse"), core.get("hbmBytesLimit"))
        place = (location.slice_index, *location.coords)
        if part is not None:
            fullest[place] = max(fullest.get(place, 0.0), part)
    fullest.update(dict.fromkeys(failed, FAILED))
    x_size, y_size, z_size = shape_3d(kind)
    planes = [
        _plane(_title(number if num_slices > 1 else None, z if z_size > 1 else None), rows)
        for number in range(num_slices)
        for z in range(z_size)
        for rows in [[[fullest.get((number, x, y, z)) for x in range(x_size)] for y in range(y_size)]]
    ]
    broken = [Text(f"{CROSS} failed", style="red")] if failed else []
    return Group(Constrain(Columns(planes, padding=(1, 3)), width), Text(), _summary(cores), *broken)


def _title(number: int | None, z: int | None) -> str:
    return ", ".join(part for part in (f"slice {number}" * (number is not None), f"z = {z}" * (z is not None)) if part)


def _plane(title: str, rows: Sequence[Sequence[float | None]]) -> Text:
    text = Text(f"{title}\n" if title else "", style="dim")
    for row in rows:
        for part in row:
            text.append(*_mark(part))
        text.append("\n")
    text.rstrip()
    return text


def _mark(part: float | None) -> tuple[str, str]:
    """Two letters and their style: a chip as wide as it is high."""
    if part == FAILED:
        return CROSS + " ", "not dim red"
    if not part:
        return EMPTY + " ", "dim"
    colour = "red" if part >= FULL else "yellow" if part >= HIGH else "green"
    return LEVELS[min(int(part * len(LEVELS)), len(LEVELS) - 1)] * 2, f"not dim {colour}"


def _summary(cores: Sequence[Mapping[str, Any]]) -> Text:
    """``HBM of a core: 1.2 MiB to 3 MiB of 15.5 GiB, half have less than 2 MiB``."""
    used = [core["hbmBytesInUse"] for core in cores]
    if not used:
        return Text("The slice does not say what is in its HBM", style="dim")
    low, middle, high = min(used), statistics.median_low(used), max(used)
    limit = bytes_text(cores[0]["hbmBytesLimit"])
    if low == high:
        return Text(f"HBM in use: {bytes_text(low)} of {limit} on each of {len(used)} devices")
    words = f"HBM in use: {bytes_text(low)} to {bytes_text(high)} of {limit} a device, the median {bytes_text(middle)}"
    return Text(words)
