"""Bars inside table cells: how much of a whole is used."""

from __future__ import annotations

from rich.text import Text

PARTS = " ▏▎▍▌▋▊▉"
HIGH, FULL = 0.75, 0.95


def bar(share: float | None, width: int = 10) -> Text:
    """A bar of ``width`` cells, in eighths of a cell; green, then yellow from 75%, red from 95%."""
    if share is None:
        return Text("-" + " " * (width - 1), style="dim")
    share = min(max(share, 0.0), 1.0)
    eighths = round(share * width * 8)
    filled = "█" * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")
    colour = "red" if share >= FULL else "yellow" if share >= HIGH else "green"
    return Text.assemble((filled, f"{colour} on grey23"), (" " * (width - len(filled)), "on grey23"))


def share(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, or None where either is not known."""
    return part / whole if part is not None and whole else None
