"""How far a training is, read from the metrics its job has logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tpuctl.metrics import POSITION

Row = Mapping[str, Any]
NOT_METRICS = frozenset({*POSITION, "time"})


class Position(NamedTuple):
    """A place in a training, its fields in the order of ``metrics.POSITION``; what a script does not log is None."""

    epoch: int | None
    epochs: int | None
    step: int | None
    steps: int | None

    @property
    def steps_done(self) -> int | None:
        """Steps since the first epoch began."""
        if self.step is None:
            return None
        if self.epoch is None:
            return self.step
        return None if self.steps is None else (self.epoch - 1) * self.steps + self.step

    @property
    def steps_in_all(self) -> int | None:
        if self.steps is None:
            return None
        return self.steps * self.epochs if self.epochs is not None else None if self.epoch is not None else self.steps

    @property
    def share(self) -> float | None:
        """How much of the training is done, 0 to 1."""
        done, total = self.steps_done, self.steps_in_all
        if done is not None and total:
            return min(done / total, 1.0)
        return min(self.epoch / self.epochs, 1.0) if self.epoch and self.epochs else None

    def __str__(self) -> str:
        parts = ("epoch", self.epoch, self.epochs), ("step", self.step, self.steps)
        return ", ".join(f"{name} {at}" + (f"/{of}" if of else "") for name, at, of in parts if at is not None)


def position(row: Row) -> Position:
    """The place a row of metrics was logged at."""
    return Position(*(int(row[name]) if row.get(name) is not None else None for name in POSITION))


def scalars(row: Row) -> dict[str, float]:
    """A row's metrics, without its place and time. On the wire "NaN" and "Infinity" are strings."""
    return {name: float(value) for name, value in row.items() if name not in NOT_METRICS}


def host_step_seconds(rows: Sequence[Row]) -> float | None:
    """Seconds a step by the host's clock, measured between the last two rows of one epoch."""
    for earlier, later in zip(rows[-2::-1], rows[:0:-1], strict=True):
        steps = (later.get("step") or 0) - (earlier.get("step") or 0)
        if earlier.get("epoch") == later.get("epoch") and steps > 0 and "time" in earlier and "time" in later:
            return float(later["time"] - earlier["time"]) / steps
    return None


def device_step_seconds(job: Mapping[str, Any]) -> float | None:
    """Simulated device seconds a step: as the script has measured them, else all it ran there over its steps so far."""
    measured = (job.get("metrics") or {}).get("device_step_seconds")
    if measured is not None:
        return float(measured)
    steps = position(job.get("metrics") or {}).steps_done
    seconds = job.get("deviceSeconds")
    return seconds / steps if steps and seconds is not None else None
