"""Small files that are there whole or not at all, locks on files, and the last word of a process's output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` (mode 0600) with ``value`` as JSON in one step. Raises OSError and leaves the old file."""
    write_text(path, json.dumps(value))


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` (mode 0600) with ``text`` in one step. Raises OSError and leaves the old file."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in ``path``; None if it is not there or is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def last_line(path: Path) -> str:
    """The last line of ``path``; nothing if it is empty or not there."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines else ""


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file, for as long as it stays open anywhere; False if somebody else has it locked."""
    import fcntl  # not there on every system that clients run on

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
