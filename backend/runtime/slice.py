"""What is the slice made of, and how is it doing? Its cores, their HBM, and who holds them."""

from __future__ import annotations

import os
import time
from typing import Any

from backend.hardware import accelerator_type, core_locations
from backend.link.messages import VERSION, Core, Welcome
from backend.runtime.hbm import Hbm
from backend.runtime.launch_queue import LaunchQueue
from backend.runtime.machine import EmulatedMachine, Machine
from backend.runtime.occupancy import Occupancy
from backend.runtime.telemetry import LaunchCounters


class Slice:
    """The chips of one slice, with everything that its clients share."""

    def __init__(self, name: str, type_name: str, machine: Machine | None = None) -> None:
        """Raises UnknownAcceleratorType."""
        kind = accelerator_type(type_name)
        self.name = name
        self.type = kind
        self.machine = machine or EmulatedMachine(kind.generation)
        self.hbm_bytes = kind.generation.hbm_available_bytes
        self.hbm = Hbm([place.hbm_name for place in core_locations(kind)], self.hbm_bytes)
        self.counters = LaunchCounters()
        self.occupancy = Occupancy()
        self.launch_queue = LaunchQueue()
        self._started = time.monotonic()

    def welcome(self) -> Welcome:
        """How the slice introduces itself to a client."""
        cores = [
            Core(place.id, list(place.coords), place.core_on_chip, place.process_index)
            for place in core_locations(self.type)
        ]
        return Welcome(VERSION, self.name, self.type.name, self.type.generation.device_kind, self.hbm_bytes, cores)

    def telemetry(self) -> dict[str, Any]:
        """The figures that ``status`` shows."""
        holder = self.occupancy.holder
        return {
            "name": self.name,
            "type": self.type.name,
            "pid": os.getpid(),
            "uptimeSeconds": time.monotonic() - self._started,
            "cores": [
                {"id": core, "hbmBytesInUse": in_use, "hbmBytesLimit": self.hbm.limit_bytes, "hbmBytesPeak": peak}
                for core, (in_use, peak) in enumerate(
                    zip(self.hbm.in_use.tolist(), self.hbm.peak.tolist(), strict=True)
                )
            ],
            "client": {"pid": holder.pid, "job": holder.job} if holder else None,
            **self.counters.values(),
        }
