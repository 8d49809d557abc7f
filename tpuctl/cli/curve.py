"""A curve in the terminal, drawn in braille: two by four dots a cell."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

FIRST = 0x2800
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
MIN_VALUES = 5
NICE = (1, 2, 2.5, 5, 10)


class Point(NamedTuple):
    x: float
    y: float


def curve(points: Sequence[Point], width: int = 60, height: int = 9, title: str = "", x_label: str = "") -> list[str]:
    """The lines of a plot of ``points``, their x rising; a y that is not finite leaves a gap.

    ``height`` gives or takes a line, so that labels are equally far apart.
    Empty when fewer than five are finite: they say more as numbers.
    """
    finite = [point.y for point in points if math.isfinite(point.y)]
    if len(finite) < MIN_VALUES:
        return []
    ticks = nice_ticks(min(finite), max(finite), most=(height + 1) // 2)
    distance = max(1, round((height - 1) / (len(ticks) - 1)))
    rows = _draw(points, ticks[0], ticks[-1] - ticks[0], width, distance * (len(ticks) - 1) + 1)
    labels = {distance * number: f"{tick:g}" for number, tick in enumerate(reversed(ticks))}
    margin = max(map(len, labels.values()))
    head = [" " * (margin + 2) + title] if title else []
    body = [f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}{line}" for row, line in enumerate(rows)]
    first, last = f"{points[0].x:,g}", f"{points[-1].x:,g}"
    caption = x_label.center(width - len(first) - len(last))
    foot = [" " * margin + " └" + "─" * width, " " * (margin + 2) + first + caption + last]
    return [*head, *body, *foot]


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers at equal distances that span ``low`` to ``high``: ``most`` of them or fewer, at least two."""
    rough = ((high - low) or abs(high) or 1.0) / (most - 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    for factor in (*NICE, *(10 * factor for factor in NICE[1:])):
        step = factor * magnitude
        first, last = math.floor(low / step), math.ceil(high / step)
        last += first == last
        if last - first < most:
            break
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _draw(points: Sequence[Point], low: float, span: float, width: int, height: int) -> list[str]:
    """Braille rows of the polyline through the points, over all of the plot's width."""
    columns, lines = width * 2, height * 4
    cells = [[FIRST] * width for _ in range(height)]
    places = [point.x for point in points]
    previous: int | None = None
    for column in range(columns):
        value = _at(points, places, places[0] + (places[-1] - places[0]) * column / (columns - 1))
        if not math.isfinite(value):
            previous = None
            continue
        line = round((1 - (value - low) / span) * (lines - 1))
        start = line if previous is None else previous
        for dot in range(min(start, line), max(start, line) + 1):
            cells[dot // 4][column // 2] |= DOTS[column % 2][dot % 4]
        previous = line
    return ["".join(map(chr, row)) for row in cells]


def _at(points: Sequence[Point], places: Sequence[float], x: float) -> float:
    """The y at ``x``, between neighbours in proportion."""
    right = min(max(bisect_right(places, x), 1), len(points) - 1)
    left, after = points[right - 1], points[right]
    rest = (x - left.x) / (after.x - left.x) if after.x > left.x else 1.0
    if rest in (0.0, 1.0):
        return after.y if rest else left.y
    return left.y * (1 - rest) + after.y * rest
