"""How does a pod look from above? Plane by plane, a mark a chip; of a pod of cubes, four marks a cube.

Slices are letters, in colour where there is colour; what else a chip can be has a mark of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from tpuctl.api.fleet import BROKEN, DRAINING, FREE, MARKS, RESERVED, SPARE

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
"""Of slices, in turn."""
MARK_STYLES = {FREE: "dim", BROKEN: "bold red", RESERVED: "blue", SPARE: "dim green", DRAINING: "yellow"}
SHARES = 4
"""Marks a cube."""
BETWEEN = 3
MOST_CHIPS = 1024
"""A pod of more is drawn by cubes."""


def pod_picture(pod: dict[str, Any], width: int) -> list[Text]:
    """Lines that are at most ``width`` wide if that can be: planes side by side, x to the right, y down."""
    styles = MARK_STYLES | {one["letter"]: COLOURS[number % len(COLOURS)] for number, one in enumerate(pod["slices"])}
    chips = [plane.split("\n") for plane in pod["planes"]]
    if pod["chips"] <= MOST_CHIPS:
        blocks = [_drawn(plane, 1, styles, _title(z, 1, len(chips))) for z, plane in enumerate(chips)]
    else:
        x_side, y_side, z_side = [int(side) for side in f"{pod['unit']}x1".split("x")][:3]
        blocks = [
            _drawn(_by_cubes(chips, z, (x_side, y_side, z_side)), y_side, styles, _title(z, z_side, len(chips)))
            for z in range(0, len(chips), z_side)
        ]
    return _abreast(blocks, width)


def _title(z: int, thickness: int, planes: int) -> str:
    """Which planes of chips are drawn as one."""
    if planes == 1:
        return ""
    return f"z = {z}" if thickness == 1 else f"z = {z} to {z + thickness - 1}"


def legend(pod: dict[str, Any]) -> Text:
    """What the marks mean, of those that are seen."""
    seen = {mark for plane in pod["planes"] for mark in plane}
    line = Text("letters are slices", style="dim")
    for mark, meaning in MARKS.items():
        if mark in seen:
            line.append("  ")
            line.append(mark, f"not dim {MARK_STYLES[mark]}")
            line.append(f" {meaning}")
    return line


def _by_cubes(chips: Sequence[Sequence[str]], z: int, sides: Sequence[int]) -> list[str]:
    """A plane of cubes: of each, as many of four marks as its chips have their share in it."""
    x_side, y_side, z_side = sides
    rows = []
    for y in range(0, len(chips[z]), y_side):
        row = ""
        for x in range(0, len(chips[z][y]), x_side):
            inside = Counter(
                chips[z + dz][y + dy][x + dx] for dz in range(z_side) for dy in range(y_side) for dx in range(x_side)
            )
            row += _share(inside)
        rows.append(row)
    return rows


def _share(inside: Counter[str]) -> str:
    """The larger shares first; whatever is there gets a mark before the largest gets a second."""
    total = inside.total()
    marks = ""
    for mark, count in sorted(inside.items(), key=lambda one: (one[0] == FREE, -one[1], one[0])):
        marks += mark * max(1, round(SHARES * count / total))
    return marks[:SHARES].ljust(SHARES, marks[-1])


def _drawn(plane: Sequence[str], rows: int, styles: dict[str, str], title: str) -> list[Text]:
    """``rows`` are the rows of chips that a row stands for; where they are several, a cube has four marks."""
    lines = [Text(title, style="bold")] if title else []
    margin = len(str((len(plane) - 1) * rows)) + 1
    for number, row in enumerate(plane):
        line = Text(f"{number * rows:<{margin}}", style="dim")
        for index, mark in enumerate(row):
            line.append(mark, f"not dim {styles.get(mark, 'white')}")
            if rows > 1 and index % SHARES == SHARES - 1:
                line.append(" ")
        lines.append(line)
    return lines


def _abreast(blocks: list[list[Text]], width: int) -> list[Text]:
    widest = max(line.cell_len for block in blocks for line in block) + BETWEEN
    count = max(1, (width + BETWEEN) // widest)
    lines: list[Text] = []
    for start in range(0, len(blocks), count):
        some = blocks[start : start + count]
        for number in range(max(map(len, some))):
            line = Text()
            for block in some:
                cell = block[number].copy()
                cell.pad_right(widest - cell.cell_len)
                line.append_text(cell)
            line.rstrip()
            lines.append(line)
        lines.append(Text())
    return lines[:-1]
