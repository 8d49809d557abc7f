"""Can a job of several processes go on? Not if some wait for one that is not there, or can't end by themselves."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, NamedTuple

from backend.host.address import Address
from tpuctl.api.home import Home
from tpuctl.control import telemetry
from tpuctl.store import JobRow, NodeRow

LOOK_SECONDS = 2.0
"""How often a slice is asked how the processes of a job get on together."""
FAILED_SECONDS = 20.0
"""What processes get to end by themselves once a launch has failed; jax.distributed lets each wait for the others."""
INITIALIZE_SECONDS = 8.0


class Stall(NamedTuple):
    """Why a job cannot go on, and how long that must be so before it is ended."""

    text: str
    seconds: float


def stall(run: dict[str, Any] | None, gone: Collection[int], *, coordinated: bool) -> Stall | None:
    """What keeps a job from going on.

    ``run`` is what the slice says of the job's processes, None if none has attached. ``gone`` are the workers that have
    ended without failing, or that were not chosen to run; ``coordinated`` says that jax.distributed's coordinator
    listens: somebody has come to initialize(), which needs all.
    """
    if run is None:
        if not gone or not coordinated:
            return None
        text = f"{_are_not_there(gone)}; the others wait in jax.distributed.initialize(), which needs all"
        return Stall(text, INITIALIZE_SECONDS)
    if run["trouble"] is not None:
        return Stall(run["trouble"], FAILED_SECONDS)
    if missing := set(run["missing"]) & set(gone):
        return Stall(f"{_are_not_there(missing)}; the others wait for it to launch {run['launch']}", 0.0)
    return None


class Stalls:
    """The jobs that cannot go on, and since when."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._since: dict[str, tuple[str, float]] = {}
        self._look_at: dict[str, float] = {}

    def look(self, job: JobRow, node: NodeRow, running: Collection[int]) -> str | None:
        """Why a job whose workers ``running`` run is to be ended; now and then the slice is asked."""
        now = time.monotonic()
        if job.processes == 1 or now < self._look_at.get(job.uid, 0.0):
            return None
        self._look_at[job.uid] = now + LOOK_SECONDS
        found = self._find(job, node, running)
        if found is None:
            self._since.pop(job.uid, None)
            return None
        text, since = self._since.get(job.uid, ("", now))
        self._since[job.uid] = found.text, since if text == found.text else now
        return found.text if now - self._since[job.uid][1] >= found.seconds else None

    def forget(self, job: JobRow) -> None:
        self._since.pop(job.uid, None)
        self._look_at.pop(job.uid, None)

    def _find(self, job: JobRow, node: NodeRow, running: Collection[int]) -> Stall | None:
        said = telemetry.ask(self._home, node)
        if said is None:
            return None
        gone = set(range(job.processes)) - set(running)
        coordinated = bool(gone) and Address(node.host, node.port).coordinator.listens()
        return stall(telemetry.run(said, job.name), gone, coordinated=coordinated)


def _are_not_there(workers: Collection[int]) -> str:
    first, *others = sorted(workers)
    more = f" ({len(others)} more, too)" if others else ""
    return f"worker {first} has ended, or was never started, without attaching to the slice{more}"
