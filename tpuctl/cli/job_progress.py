"""The live part of a job's display: a spinner while its slice is made, then bars drawn from its metrics.

It shows only in a terminal. Whatever the script prints goes above it, untouched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tpuctl.api.joined_rows import joined
from tpuctl.cli import steps, terminal, training
from tpuctl.cli.bars import bar
from tpuctl.cli.units import seconds_text

if TYPE_CHECKING:
    from tpuctl.api.jobs import Job

REFRESH_PER_SECOND = 8
BAR_WIDTH = 28
RECENT_ROWS = 2


class JobProgress:
    """A region below the script's output. Use it as a context; ``rows`` holds the metrics seen so far."""

    def __init__(self) -> None:
        self._attempts: list[list[Mapping[str, float]]] = [[]]
        self._console = terminal.stderr()
        self._live: Live | None = None
        self._shown: RenderableType | None = None
        self._doing = ""
        self._doing_since = time.monotonic()
        self._line_open = False
        self._running = False
        self._logged_at = 0.0

    @property
    def rows(self) -> list[Mapping[str, float]]:
        """Those of all attempts, without what a later one has done again."""
        return joined(self._attempts)

    def attempt(self, number: int) -> None:
        """Another attempt has begun."""
        self._attempts.append([])

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()

    @contextmanager
    def paused(self, text: str) -> Iterator[None]:
        """Make room for ``text``, a piece of output; the region comes back when its line has ended."""
        self._erase()
        yield
        self._line_open = not text.endswith("\n")
        self._draw()

    def doing(self, message: str) -> None:
        """The control plane says what it does for the job; what it did before is done."""
        self._finish_step()
        if self._attempts[-1]:
            return
        message = message[:1].upper() + message[1:]
        self._doing, self._doing_since = message, time.monotonic()
        self._show(_Doing(message, self._doing_since))

    def job(self, job: Job) -> None:
        """The job has changed: once its command runs, there are no more steps to report."""
        if job.state != "QUEUED":
            self._finish_step()
        self._running = job.state != "QUEUED"

    def metrics(self, row: Mapping[str, float]) -> None:
        """The script has logged a row. A watch that is taken up again may repeat rows: they are passed over."""
        if row.get("time", math.inf) <= self._logged_at:
            return
        self._logged_at = row.get("time", self._logged_at)
        values = training.scalars(row)
        self._attempts[-1].append(row)
        self._show(_bars(row, values, training.host_step_seconds(self._attempts[-1][-RECENT_ROWS:])))

    def _finish_step(self) -> None:
        if not self._doing:
            return
        self._erase()
        if not self._running:
            steps.report(self._doing, time.monotonic() - self._doing_since)
        self._doing = ""
        self._shown = None

    def _show(self, region: RenderableType) -> None:
        self._shown = region
        if self._live is not None:
            self._live.update(region)
        else:
            self._draw()

    def _draw(self) -> None:
        if self._shown is None or self._line_open or self._live is not None or not self._console.is_terminal:
            return
        self._live = Live(
            self._shown,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class _Doing:
    """A spinner with what is being done and for how long; drawn anew at each refresh."""

    def __init__(self, message: str, since: float) -> None:
        self.message = message
        self.since = since
        self.spinner = Spinner("dots")

    def __rich__(self) -> RenderableType:
        elapsed = f" {time.monotonic() - self.since:.1f} s"
        self.spinner.update(text=Text.assemble(self.message, (elapsed, "dim")))
        return self.spinner


def _bars(row: Mapping[str, float], values: Mapping[str, float], step_seconds: float | None) -> RenderableType:
    """Two bars, epochs and steps of this epoch, and the metrics behind them."""
    place = training.position(row)
    grid = Table.grid(padding=(0, 1, 0, 0))
    if place.epochs:
        grid.add_row("epoch", bar(place.share, BAR_WIDTH), f"{place.epoch}/{place.epochs}")
    if place.steps and place.step is not None:
        pace = f"{place.step}/{place.steps}" + (f"  {seconds_text(step_seconds)} a step" if step_seconds else "")
        grid.add_row("step", bar(place.step / place.steps, BAR_WIDTH), pace)
    numbers = Text()
    for name, value in values.items():
        numbers.append(f"{name} ", style="dim").append(f"{value:.4g}   ")
    return Group(grid, numbers)
