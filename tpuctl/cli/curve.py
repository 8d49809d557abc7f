"""A curve in the terminal, drawn in braille: two by four dots a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

FIRST = 0x2800
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def curve(values: Sequence[float], width: int = 60, height: int = 8, title: str = "", x_label: str = "") -> list[str]:
    """The lines of a plot of ``values`` over their index; values that are not finite leave a gap.

    Empty when fewer than two values are finite.
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return []
    low, high = min(finite), max(finite)
    rows = _draw(values, low, (high - low) or 1.0, width, height)
    labels = [f"{high - (high - low) * row / (height - 1):.3g}" if row % 2 == 0 else "" for row in range(height)]
    margin = max(len(label) for label in labels)
    axis = " " * margin + " └" + "─" * width
    caption = " " * (margin + 2) + x_label
    head = [" " * (margin + 2) + title] if title else []
    body = [f"{label:>{margin}} {'┤' if label else '│'}{row}" for label, row in zip(labels, rows, strict=True)]
    return [*head, *body, axis, *([caption] if x_label else [])]


def _draw(values: Sequence[float], low: float, span: float, width: int, height: int) -> list[str]:
    """Braille rows of the polyline through the values, scaled to fill the plot."""
    columns, lines = width * 2, height * 4
    cells = [[FIRST] * width for _ in range(height)]
    previous: int | None = None
    for x in range(columns):
        value = _at(values, x / (columns - 1))
        if not math.isfinite(value):
            previous = None
            continue
        y = round((1 - (value - low) / span) * (lines - 1))
        start = y if previous is None else previous
        for dot in range(min(start, y), max(start, y) + 1):
            cells[dot // 4][x // 2] |= DOTS[x % 2][dot % 4]
        previous = y
    return ["".join(map(chr, row)) for row in cells]


def _at(values: Sequence[float], share: float) -> float:
    """The value at ``share`` (0 to 1) of the way, between neighbours in proportion."""
    place = share * (len(values) - 1)
    left = min(int(place), len(values) - 2)
    rest = place - left
    return values[left] * (1 - rest) + values[left + 1] * rest
