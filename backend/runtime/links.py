"""How long is a launch on the links, and can it run at all? The slice's interconnect with the faults put into it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from backend.compiler.program import Program
from backend.errors import Unavailable
from backend.hardware import AcceleratorType
from backend.ici.faults import Faults, FaultyParts
from backend.ici.timing import Interconnect

_log = logging.getLogger(__name__)


class Links:
    """The interconnect of one slice runtime. Changed by monitors, asked by the thread that launches."""

    def __init__(self, kind: AcceleratorType, slices: int = 1) -> None:
        self._interconnect = Interconnect(kind, slices)
        self._parts = FaultyParts(kind, slices)
        self._devices_a_chip = kind.generation.devices_per_chip
        self._lock = threading.Lock()
        self._failed: dict[int, str] = {}
        self.version = 0
        """Goes up with every fault that comes or goes."""

    @property
    def faults(self) -> Faults:
        return self._interconnect.faults

    def change(self, part: str, where: Sequence[str], *, recover: bool, slice_index: int) -> None:
        """Break a part, or mend it. Raises InvalidArgument."""
        with self._lock:
            faults = self._parts.changed(self.faults, part, list(where), recover=recover, slice_index=slice_index)
            self._interconnect.faults = faults
            self._failed = self._failed_devices(faults)
            self.version += 1
        _log.warning("fault %s", "ended" if recover else "injected", extra={"part": part, "where": list(where)})

    def seconds(self, program: Program) -> float:
        """Simulated seconds of a program's collectives. Raises Unavailable where a fault has cut the way."""
        if not program.cost.collectives:
            return 0.0
        with self._lock:
            return self._interconnect.seconds(program.cost.collectives, program.device_ids)

    def check(self, devices: Sequence[int], name: str) -> None:
        """Raises Unavailable if a device that the program ``name`` runs on is on a chip that has failed."""
        if not self._failed:
            return
        for device in devices:
            if device in self._failed:
                raise Unavailable(f"{name} runs on {self._failed[device]}, which has failed")

    def telemetry(self) -> list[dict[str, Any]]:
        """The faults as ``status`` shows them: part, where, slice and what it means, in words."""
        faults = self.faults
        rows = [("link", index, [one, other]) for index, one, other in sorted(faults.links)]
        rows += [("chip", index, [coords]) for index, coords in sorted(faults.failed_chips)]
        found: list[dict[str, Any]] = [
            {"part": part, "where": [",".join(map(str, coords)) for coords in places], "sliceIndex": index}
            for part, index, places in rows
        ]
        for host, chips in sorted(faults.hosts, key=lambda each: each[0]):
            found.append(
                {
                    "part": "host",
                    "where": [str(host)],
                    "sliceIndex": min(chips)[0],
                    "chips": [",".join(map(str, coords)) for _, coords in sorted(chips)],
                }
            )
        return found

    def _failed_devices(self, faults: Faults) -> dict[int, str]:
        routes, each = self._interconnect.routes, self._devices_a_chip
        names = {chip: f"a chip of host {host}, at " for host, chips in faults.hosts for chip in chips}
        names |= dict.fromkeys(faults.failed_chips, "chip ")
        failed = {}
        for (index, coords), what in names.items():
            chip = routes.chip(index, coords)
            for device in range(chip * each, (chip + 1) * each):
                failed[device] = f"{what}{routes.name(chip)}"
        return failed
