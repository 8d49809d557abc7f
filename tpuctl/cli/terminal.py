"""Where output goes: data to stdout, talk to stderr; colour only for a terminal."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED_COLUMNS = 2_000
USUAL_COLUMNS = 100


def stdout() -> Console:
    """A console for data. In a pipe it is wide enough to never wrap or cut a row."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)


def columns(console: Console, most: int = USUAL_COLUMNS) -> int:
    """How wide a drawing may be: as the terminal is, but no more than ``most``; in a pipe as most terminals are."""
    return min(console.width, most) if sys.stdout.isatty() else USUAL_COLUMNS


@cache
def stderr() -> Console:
    """The console for talk."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """One line of talk."""
    print(message, file=sys.stderr, flush=True)


def tell(message: str) -> None:
    """Something to read: indented, in a terminal in lines that end between words."""
    import textwrap

    room = shutil.get_terminal_size().columns if sys.stderr.isatty() else max(len(message), 1) + 2
    say(textwrap.fill(message, room, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))


def is_interactive() -> bool:
    """Whether there is someone to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()
