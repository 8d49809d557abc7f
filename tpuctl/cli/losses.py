"""Which losses of a training make its curve, and what their x axis counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tpuctl.cli import training
from tpuctl.cli.curve import Point

COUNTED = "values logged"


class Curve(NamedTuple):
    """Points to draw, and what is counted along x."""

    x_label: str
    points: Sequence[Point]


def loss_curve(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """The losses of rows of metrics: those of steps, or of epochs if more of these were logged.

    A row with a validation loss sums up its epoch: it is not a step's.
    """
    curves: dict[str, list[Point]] = {"step": [], "epoch": [], COUNTED: []}
    for number, row in enumerate(rows, 1):
        values = training.scalars(row)
        if "loss" in values:
            label, x = _place(row, values, number)
            curves[label].append(Point(x, values["loss"]))
    label = max(curves, key=lambda label: len(curves[label]))
    points = curves[label]
    if all(left.x < right.x for left, right in pairwise(points)):
        return Curve(label, points)
    return Curve(COUNTED, [Point(number, point.y) for number, point in enumerate(points, 1)])


def _place(row: Mapping[str, Any], values: Mapping[str, float], number: int) -> tuple[str, int]:
    place = training.position(row)
    is_summary = any(name.startswith("val_") for name in values)
    if place.steps_done is not None and not (is_summary and place.epoch is not None):
        return "step", place.steps_done
    return (COUNTED, number) if place.epoch is None else ("epoch", place.epoch)
