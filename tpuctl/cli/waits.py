"""What do jobs wait for? Those that wait for the same are told together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_TOLD = 5
MOST_NAMED = 3


def told(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[str, str]], int]:
    """Pairs of who waits and for what, of a running job what keeps it from going on; and how many more there are."""
    names: dict[tuple[str, bool], list[str]] = {}
    for job in jobs:
        reason = job.get("waitsFor") or (job.get("trouble") if job["state"] == "RUNNING" else None)
        if reason:
            names.setdefault((reason, bool(job.get("waitsFor"))), []).append(job["name"])
    lines = [
        (_some(those), f"{'waits' if len(those) == 1 else 'wait'}: {reason}" if waits else reason)
        for (reason, waits), those in names.items()
    ]
    return lines[:MOST_TOLD], max(0, len(lines) - MOST_TOLD)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
