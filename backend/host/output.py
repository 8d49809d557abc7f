"""A command's output as it is stored: one JSON line a piece, appended whole, so that no crash loses any."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Stream = Literal["stdout", "stderr"]
LOG_FILE = "log.jsonl"


@dataclass(frozen=True)
class Piece:
    """Text that came from one stream at ``time`` (seconds since the epoch); a line keeps its end.

    ``end`` is the byte offset in the file after this piece: where to read on.
    """

    stream: Stream
    time: float
    text: str
    end: int


def append(descriptor: int, stream: Stream, time: float, text: str) -> None:
    """Add a piece with one write. Raises OSError, as for a full disk."""
    line = json.dumps([stream, round(time, 6), text], ensure_ascii=False) + "\n"
    data = line.encode("utf-8", errors="replace")
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def read(directory: Path, offset: int = 0) -> Iterator[Piece]:
    """The pieces from byte ``offset`` on; a line still being written, or torn by a crash, is left out."""
    try:
        file = (directory / LOG_FILE).open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for line in file:
            offset += len(line)
            if not line.endswith(b"\n"):
                return
            piece = _parse(line, offset)
            if piece is not None:
                yield piece


def _parse(line: bytes, end: int) -> Piece | None:
    try:
        stream, time, text = json.loads(line)
    except ValueError:
        return None
    return Piece(stream, time, text, end)
