"""What is the slice made of, and how is it doing? Its cores, their HBM, and who holds them."""

from __future__ import annotations

import os
import time
from typing import Any

from backend.errors import InvalidArgument
from backend.hardware import CoreLocation, accelerator_type, core_locations, device_order
from backend.link.messages import VERSION, Core, Welcome
from backend.runtime.executable import Share
from backend.runtime.hbm import Hbm
from backend.runtime.launch import Launcher
from backend.runtime.launch_queue import LaunchQueue
from backend.runtime.links import Links
from backend.runtime.machine import EmulatedMachine, Machine
from backend.runtime.occupancy import Occupancy
from backend.runtime.parties import Parties
from backend.runtime.programs import Programs
from backend.runtime.telemetry import LaunchCounters


class Slice:
    """The chips of one slice, with everything that its clients share."""

    def __init__(
        self,
        name: str,
        type_name: str,
        machine: Machine | None = None,
        *,
        topology: str | None = None,
        slices: int = 1,
    ) -> None:
        """``slices`` equal ones, joined over the data-centre network, if more than 1.

        Raises UnknownAcceleratorType, InvalidTopology.
        """
        kind = accelerator_type(type_name, topology)
        self.name = name
        self.type = kind
        self.places = core_locations(kind, slices)
        self.num_hosts = kind.num_hosts * slices
        self.machine = machine or EmulatedMachine(kind.generation)
        self.hbm_bytes = kind.generation.hbm_available_bytes
        self.hbm = Hbm([place.hbm_name for place in self.places], self.hbm_bytes)
        self.counters = LaunchCounters()
        self.links = Links(kind, slices)
        self.launcher = Launcher(self.machine, self.hbm, self.counters, self.links)
        self.programs = Programs(self.machine)
        self.occupancy = Occupancy()
        self.parties = Parties()
        self.launch_queue = LaunchQueue(self.parties)
        self._started = time.monotonic()

    def share(self, process: int, processes: int) -> Share | None:
        """The cores of one of a job's processes; None if it owns all. Raises InvalidArgument if there is no such share.

        Each process owns the chips of as many hosts.
        """
        asked = f"TPUCTL_PROCESS={process}/{processes}"
        if processes < 1 or not 0 <= process < processes:
            raise InvalidArgument(f"{asked} is no process of a job; it reads I/P, with I from 0 to P - 1")
        if self.num_hosts % processes:
            valid = [str(count) for count in range(1, self.num_hosts + 1) if self.num_hosts % count == 0]
            hosts = f"{self.num_hosts} host{'s' if self.num_hosts > 1 else ''}"
            raise InvalidArgument(
                f"{asked}: the {hosts} of this {self.type.name} slice can't be divided among {processes} processes; "
                f"use {' or '.join((', '.join(valid[:-1]), valid[-1]) if valid[1:] else valid)}"
            )
        return Share(process, self._owners(processes)) if processes > 1 else None

    def _owners(self, processes: int) -> list[int]:
        return [self._owner(place, processes) for place in self.places]

    def _owner(self, place: CoreLocation, processes: int) -> int:
        return place.process_index * processes // self.num_hosts

    def welcome(self, processes: int = 1) -> Welcome:
        """How the slice introduces itself to a client that is one of ``processes``."""
        cores = [
            Core(place.id, list(place.coords), place.core_on_chip, self._owner(place, processes), place.slice_index)
            for place in device_order(self.places)
        ]
        return self.greeting(cores)

    def greeting(self, cores: list[Core]) -> Welcome:
        """The same with the ``cores`` that the client needs to know."""
        row = self.type.generation
        joined = row.cores_per_chip // row.devices_per_chip
        return Welcome(VERSION, self.name, self.type.name, row.device_kind, self.hbm_bytes, cores, joined)

    def telemetry(self, *, cores: bool = False) -> dict[str, Any]:
        """The figures that ``status`` shows; with ``cores`` also those of each."""
        holder = self.occupancy.holder
        return {
            "name": self.name,
            "type": self.type.name,
            "topology": self.type.topology,
            "pid": os.getpid(),
            "uptimeSeconds": time.monotonic() - self._started,
            "hbmBytesInUse": int(self.hbm.in_use.sum()),
            "hbmBytesLimit": self.hbm.limit_bytes * len(self.hbm),
            **({"cores": self._each_core()} if cores else {}),
            "client": {"pid": holder.pid, "job": holder.job} if holder else None,
            "clients": [
                {"pid": each.pid, "job": each.job, "process": each.process, "processes": each.processes}
                for each in self.occupancy.holders
            ],
            **self.parties.telemetry(),
            "faults": self.links.telemetry(),
            "faultText": self.links.faults.text() if self.links.faults else None,
            **self.counters.values(),
        }

    def _each_core(self) -> list[dict[str, int]]:
        figures = zip(self.hbm.in_use.tolist(), self.hbm.peak.tolist(), strict=True)
        return [
            {"id": core, "hbmBytesInUse": in_use, "hbmBytesLimit": self.hbm.limit_bytes, "hbmBytesPeak": peak}
            for core, (in_use, peak) in enumerate(figures)
        ]
