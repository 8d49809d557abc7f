"""What a command itself finds wrong, before it asks the control plane."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tpuctl.cli import exit_codes


class Problem(Exception):
    """An error in one line, with what to do about it in another."""

    def __init__(self, message: str, hint: str = "", exit_code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest known name, or nothing if none is near."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {nearest[0]!r}?" if nearest else ""
