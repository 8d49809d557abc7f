"""What a job has logged to its metrics file, read as it grows."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

METRICS_FILE = "metrics.jsonl"
TAIL_ROWS = 200

MetricsRow = dict[str, float]


@dataclass
class MetricsFile:
    """The rows read so far. ``last`` has the last value of each metric but the time."""

    path: Path
    offset: int = 0
    last: MetricsRow = field(default_factory=dict)
    tail: deque[MetricsRow] = field(default_factory=lambda: deque(maxlen=TAIL_ROWS))

    def read_on(self) -> list[MetricsRow]:
        """The rows added since the last call; lines that are no row of numbers are passed over."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        rows = [row for row in map(_parse, whole.splitlines()) if row]
        for row in rows:
            self.tail.append(row)
            self.last.update((name, value) for name, value in row.items() if name != "time")
        return rows


def _parse(line: bytes) -> MetricsRow:
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            return {}
        return {name: float(value) for name, value in row.items() if _is_number(value)}
    except (ValueError, OverflowError, RecursionError):  # no JSON, a number beyond any float, lists without end
        return {}


def _is_number(value: object) -> bool:
    """Whether it is a number as JSON or, where JSON has none, as proto3-JSON writes it."""
    return isinstance(value, int | float) or value in ("NaN", "Infinity", "-Infinity")
