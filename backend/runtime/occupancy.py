"""Who holds the chips? One driver process at a time, as with libtpu."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from backend.errors import FailedPrecondition

_LEAVING_SECONDS = 10.0
_NOTICE_SECONDS = 0.5
"""How long it may take until it is noticed that the holder's process has ended."""


@dataclass(frozen=True)
class Holder:
    """The process that holds the chips, and the job it runs for."""

    pid: int
    job: str


class Occupancy:
    """The one place for a holder. A new one waits while the last one's launch in flight comes to its end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: Holder | None = None
        self._leaving = False

    @property
    def holder(self) -> Holder | None:
        return None if self._leaving else self._holder

    def take(self, holder: Holder, timeout: float = _LEAVING_SECONDS) -> None:
        """Raises FailedPrecondition naming the process that holds the chips."""
        with self._changed:
            self._changed.wait_for(lambda: self._holder is None or self._leaving, _NOTICE_SECONDS)
            self._changed.wait_for(lambda: self._holder is None or not self._leaving, timeout)
            if self._holder is not None:
                job = f", job {self._holder.job}" if self._holder.job else ""
                state = "is ending" if self._leaving else "holds them"
                raise FailedPrecondition(
                    f"the chips of this slice are in use: process {self._holder.pid}{job} {state}; "
                    "end it or use another slice"
                )
            self._holder = holder

    def leave(self) -> None:
        """The holder is gone, but its last launch may still be running."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def free(self) -> None:
        """The chips are idle and their HBM is empty."""
        with self._changed:
            self._holder, self._leaving = None, False
            self._changed.notify_all()
