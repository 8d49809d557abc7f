"""Long work, one line a step: a spinner with the time while it lasts, then what was done and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tpuctl.cli import terminal
from tpuctl.cli.units import seconds_text


@contextmanager
def step(doing: str, done: str) -> Iterator[None]:
    """Show ``doing`` while the body runs and ``done`` after it; an exception leaves no line."""
    console = terminal.stderr()
    started = time.monotonic()
    if console.is_terminal:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(doing, total=None)
            yield
    else:
        yield
    report(done, time.monotonic() - started)


def report(done: str, seconds: float) -> None:
    """Say that a step is done."""
    console = terminal.stderr()
    if console.is_terminal:
        console.print(f"[green]✓[/] {done} [dim]{seconds_text(seconds)}[/]")
    else:
        terminal.say(f"{done} ({seconds_text(seconds)})")
