"""Can a job of several processes go on? Not if some wait for one that is not there, or can't end by themselves."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, NamedTuple

from backend.host.address import Address
from backend.host.coordination import come_to_initialize
from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.control import telemetry
from tpuctl.control.job_files import notice_seconds, worker_place
from tpuctl.store import JobRow, NodeRow

LOOK_SECONDS = 2.0
"""How often a slice is asked how the processes of a job get on together."""
FAILED_SECONDS = 20.0
"""What processes get to end by themselves once a launch has failed; jax.distributed lets each wait for the others."""
INITIALIZE_SECONDS = 8.0
MOST_NAMED = 7
"""Of more workers than these, only the first is named, and the others are counted."""


class Stall(NamedTuple):
    """Why a job cannot go on, and how long that must be so before it is told; ``final`` says that the job is ended.

    Otherwise it may still go on: those who wait have JAX's own limit.
    """

    text: str
    seconds: float
    final: bool = True


def stall(
    run: dict[str, Any] | None, gone: Collection[int], late: Collection[int], waiting: Collection[int], notice: float
) -> Stall | None:
    """What keeps a job from going on.

    ``run`` is what the slice says of the job's processes, None if none has attached. Of the workers, ``gone`` have
    ended without failing, or were not chosen to run, ``waiting`` are in jax.distributed.initialize(), which needs all,
    and ``late`` have not come to it; they are named after ``notice`` seconds.
    """
    if run is None:
        if waiting and gone:
            text = f"{_are_not_there(gone)}; the others wait in jax.distributed.initialize(), which needs all"
            return Stall(text, INITIALIZE_SECONDS)
        if waiting and late:
            text = f"{_come(late, 'has', 'have')} not come to jax.distributed.initialize()"
            text += f", where {_come(waiting, 'waits', 'wait')} for all"
            return Stall(text, notice, final=False)
        return None
    if run["trouble"] is not None:
        return Stall(run["trouble"], FAILED_SECONDS)
    if missing := set(run["missing"]) & set(gone):
        return Stall(f"{_are_not_there(missing)}; the others wait for it to launch {run['launch']}", 0.0)
    return None


class Stalls:
    """The jobs that cannot go on, and since when."""

    def __init__(self, home: Home, executor: LocalExecutor) -> None:
        self._home = home
        self._executor = executor
        self._since: dict[str, tuple[str, float]] = {}
        self._look_at: dict[str, float] = {}
        self._told: dict[str, str] = {}

    def look(self, job: JobRow, node: NodeRow, running: Collection[int]) -> Stall | None:
        """What is to be said of a job whose workers ``running`` run; now and then the slice is asked."""
        now = time.monotonic()
        if job.processes == 1 or now < self._look_at.get(job.uid, 0.0):
            return None
        self._look_at[job.uid] = now + LOOK_SECONDS
        found = self._find(job, node, running)
        if found is None:
            self._since.pop(job.uid, None)
            self._told.pop(job.uid, None)
            return None
        what = found.text if found.final else "late"
        before, since = self._since.get(job.uid, ("", now))
        self._since[job.uid] = what, since if what == before else now
        if now - self._since[job.uid][1] < found.seconds:
            return None
        is_news = job.uid not in self._told
        self._told[job.uid] = found.text
        return found if is_news or found.final else None

    def told(self, job: JobRow) -> str | None:
        """What has been said of a job that cannot go on now. Any thread."""
        return self._told.get(job.uid)

    def forget(self, job: JobRow) -> None:
        for kept in (self._since, self._look_at, self._told):
            kept.pop(job.uid, None)

    def _find(self, job: JobRow, node: NodeRow, running: Collection[int]) -> Stall | None:
        said = telemetry.ask(self._home, node)
        if said is None:
            return None
        run = telemetry.run(said, job.name)
        gone = set(range(job.processes)) - set(running)
        waiting = set() if run is not None else self._in_initialize(job, node, running)
        places = [worker_place(self._home, job, worker) for worker in running]
        return stall(run, gone, set(running) - waiting, waiting, notice_seconds(places[0]) if places else 0.0)

    def _in_initialize(self, job: JobRow, node: NodeRow, running: Collection[int]) -> set[int]:
        pids = {worker: self._executor.command_pid(worker_place(self._home, job, worker)) for worker in running}
        commands = {worker: pid for worker, pid in pids.items() if pid is not None}
        return come_to_initialize(Address(node.host, node.port).coordinator, commands)


def _are_not_there(workers: Collection[int]) -> str:
    first, *others = sorted(workers)
    more = f" ({len(others)} more, too)" if others else ""
    return f"worker {first} has ended, or was never started, without attaching to the slice{more}"


def _come(workers: Collection[int], verb: str, plural: str) -> str:
    """ "worker 1 has", "workers 0, 1 and 3 have"; of many, the first."""
    first, *others = sorted(workers)
    if not others:
        return f"worker {first} {verb}"
    if len(others) > MOST_NAMED:
        return f"worker {first} and {len(others)} others {plural}"
    return f"workers {', '.join(map(str, [first, *others[:-1]]))} and {others[-1]} {plural}"
