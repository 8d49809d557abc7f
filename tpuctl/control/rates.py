"""Has a project called a method of the API too often? The quotas of calls a minute.

What was called is counted in memory only: it is over within a minute.
"""

from __future__ import annotations

import threading
from collections import deque

from tpuctl.api.quota import EVERY, Unit
from tpuctl.control.fault_errors import Asked, rate_limit
from tpuctl.store import Store

WINDOW_SECONDS = 60.0


class Rates:
    """Any thread."""

    def __init__(self, store: Store) -> None:
        self._clock = store.clock
        self._store = store
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._limits: dict[tuple[str, str], int] = {}
        self.read()

    @property
    def any(self) -> bool:
        """Whether there are limits: without, nothing is asked."""
        return bool(self._limits)

    def read(self) -> None:
        """See which limits there are now."""
        with self._store.read() as reader:
            found = {(row.project, row.method): row.limit for row in reader.quotas(unit=str(Unit.REQUESTS))}
        with self._lock:
            self._limits = found
            self._calls = {key: self._calls.get(key, deque()) for key in found}

    def count(self, asked: Asked) -> None:
        """Count a call, unless it is one too many. Raises ResourceExhausted."""
        with self._lock:
            keys = [key for name in (asked.method, EVERY) if (key := (asked.project, name)) in self._limits]
            for key in keys:
                if self._lately(key) >= self._limits[key]:
                    raise rate_limit(asked, self._limits[key], every=key[1] == EVERY)
            for key in keys:
                self._calls[key].append(self._clock())

    def called(self, project: str, method: str) -> int:
        """How often it was called within the last minute."""
        with self._lock:
            return self._lately((project, method))

    def _lately(self, key: tuple[str, str]) -> int:
        now, calls = self._clock(), self._calls.get(key, deque())
        while calls and not now - WINDOW_SECONDS < calls[0] <= now:
            calls.popleft()
        return len(calls)
