"""What has the slice been doing? Figures for ``status``: measured host time, simulated device time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

WINDOW_SECONDS = 10.0


@dataclass
class SessionUse:
    """What one session has used. ``device_seconds`` are simulated, ``host_busy_seconds`` measured in the engine."""

    device_seconds: float = 0.0
    programs_run: int = 0
    host_busy_seconds: float = 0.0


@dataclass
class LaunchCounters:
    """Launches since the start and in the last seconds. Written by the launch thread only."""

    programs_run: int = 0
    device_seconds: float = 0.0
    mxu_seconds: float = 0.0
    sessions: dict[str, SessionUse] = field(default_factory=dict)
    _recent: deque[tuple[float, float, float]] = field(default_factory=deque)

    def record(self, job: str, device_seconds: float, mxu_seconds: float, host_seconds: float) -> None:
        """Count one launch."""
        self.programs_run += 1
        self.device_seconds += device_seconds
        self.mxu_seconds += mxu_seconds
        use = self.sessions.setdefault(job, SessionUse())
        use.programs_run += 1
        use.device_seconds += device_seconds
        use.host_busy_seconds += host_seconds
        now = time.monotonic()
        self._recent.append((now, device_seconds, mxu_seconds))
        while self._recent[0][0] < now - WINDOW_SECONDS:
            self._recent.popleft()

    def values(self) -> dict[str, Any]:
        """The figures by their names in ``status``. MXU shares are of simulated device time."""
        since = time.monotonic() - WINDOW_SECONDS
        recent = [launch for launch in tuple(self._recent) if launch[0] >= since]
        return {
            "mxuBusyShare": _share(sum(mxu for _, _, mxu in recent), sum(device for _, device, _ in recent)),
            "mxuBusyShareTotal": _share(self.mxu_seconds, self.device_seconds),
            "programsRun": self.programs_run,
            "deviceSeconds": self.device_seconds,
            "sessions": {
                job: {
                    "deviceSeconds": use.device_seconds,
                    "programsRun": use.programs_run,
                    "hostBusySeconds": use.host_busy_seconds,
                }
                for job, use in tuple(self.sessions.items())
            },
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
