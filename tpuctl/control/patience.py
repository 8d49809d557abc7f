"""How long something has been waited for, counted from when this process first saw it."""

from __future__ import annotations

import time


class Patience:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def exhausted(self, key: str) -> bool:
        """Whether ``key`` has been asked about for longer than the given time."""
        now = time.monotonic()
        return now - self._since.setdefault(key, now) > self._seconds

    def first_time(self, key: str) -> bool:
        """Whether ``key`` is asked about for the first time."""
        known = key in self._since
        self.exhausted(key)
        return not known

    def reset(self, key: str) -> None:
        self._since.pop(key, None)
