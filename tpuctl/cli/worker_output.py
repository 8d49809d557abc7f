"""How is the output of several workers told apart? Each line begins with who wrote it; that of one is left as it is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from tpuctl.api.names import worker_label
from tpuctl.cli import exit_codes
from tpuctl.cli.problems import Problem

if TYPE_CHECKING:
    from tpuctl.api.jobs import LogRecord

COLOURS = ("36", "33", "35", "32", "34", "91")
Key = tuple[int, str]


class WorkerOutput:
    """Puts records on the stream they came from; with ``several`` workers by whole lines."""

    def __init__(self, several: bool, only: frozenset[int] | None = None, stdout: TextIO | None = None) -> None:
        """``only`` are the workers that are shown; what they print on stdout goes to ``stdout``."""
        self._several = several
        self._only = only
        self._streams = {"stdout": stdout or sys.stdout, "stderr": sys.stderr}
        self._begun: dict[Key, str] = {}

    def take(self, record: LogRecord) -> str:
        """What can be shown now of ``record``, for ``put``; a line's beginning is kept until its end comes."""
        if self._only is not None and record.worker not in self._only:
            return ""
        if not self._several:
            return record.text
        key = (record.worker, record.stream)
        text = self._begun.pop(key, "") + record.text
        whole, end, rest = text.rpartition("\n")
        if rest:
            self._begun[key] = rest
        return "".join(f"{self._prefix(*key)}{line}\n" for line in whole.split("\n")) if end else ""

    def put(self, stream: str, text: str) -> None:
        self._streams[stream].write(text)
        self._streams[stream].flush()

    def finish(self) -> None:
        """Show lines whose end never came."""
        for (worker, stream), text in self._begun.items():
            self.put(stream, f"{self._prefix(worker, stream)}{text}\n")
        self._begun.clear()

    def _prefix(self, worker: int, stream: str) -> str:
        name = worker_label(worker)
        return (
            f"\x1b[{COLOURS[worker % len(COLOURS)]}m{name}\x1b[0m " if _coloured(self._streams[stream]) else f"{name} "
        )


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def chosen(text: str | None) -> list[int] | None:
    """The workers that ``--worker`` names: ``2``, ``0,2``, ``1-3`` or ``all`` (None). Raises Problem."""
    if text is None or text == "all":
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (_is_number(first) and (_is_number(last) if dash else True)) or (dash and int(last) < int(first)):
            raise Problem(f"--worker {text}: {part!r} is no worker", "use N, N,M, N-M or all", exit_codes.USAGE)
        found += range(int(first), int(last or first) + 1)
    return found


def check_chosen(wanted: list[int] | None, there: list[int], job: str) -> None:
    """Raises Problem if a wanted worker is none of the job's."""
    for number in wanted or ():
        if number not in there:
            has = "only worker 0 runs" if there == [0] else f"its workers are {', '.join(map(str, there))}"
            raise Problem(f"job {job} has no worker {number}", has, exit_codes.USAGE)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6
