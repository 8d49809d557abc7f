"""Which rows of metrics are a job's, of all that its attempts have logged?

An attempt that resumes from a checkpoint repeats steps of the one before it: those count that came last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Row = TypeVar("Row", bound=Mapping[str, float])


def joined(attempts: Sequence[Sequence[Row]]) -> list[Row]:
    """Rows of all attempts, the first one's first, without what a later attempt has done again."""
    found: list[Row] = []
    for rows in attempts:
        start = next((place for row in rows if (place := _place(row)) is not None), None)
        if start is not None:
            found = [row for row in found if (place := _place(row)) is None or place < start]
        found += rows
    return found


def _place(row: Mapping[str, float]) -> tuple[float, float] | None:
    """Epoch and step; a row without a step sums up its epoch, and comes after all of its steps."""
    if "epoch" not in row and "step" not in row:
        return None
    return float(row.get("epoch", 0)), float(row.get("step", float("inf")))
