"""A control plane in simulated time: no thread, no process; what happens is the same each time it is told again.

A runtime is READY so many seconds after its start. A worker runs its command, ``sleep SECONDS`` or ``fail SECONDS``, on
the simulated clock. What there is of them lies in their directories, so that it outlives a control plane.
"""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from backend.host.executor import Exit, LocalExecutor, RuntimeState, WorkerState
from backend.host.process import ProcessId
from backend.host.workers import HostedSlice
from tpuctl.api.fleet import FleetFile
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest
from tpuctl.control.plane import ControlPlane
from tpuctl.store import Store, Transaction

START = 1_800_000_000.0
READY_SECONDS = 1.0
STEP_SECONDS = 0.5
ERROR_ID = re.compile(r" \[EID: 0x\w+\]")
"""Those are new each time."""


class Killed(BaseException):
    """As SIGKILL does, it passes by all who handle errors."""


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class SimulatedExecutor(LocalExecutor):
    """Runtimes and workers that are only written down."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(("true",))
        self._clock = clock

    def start_slice(self, hosted: HostedSlice) -> None:
        hosted.directory.mkdir(parents=True, exist_ok=True)
        _write(hosted.directory, {"ready": self._clock() + READY_SECONDS})

    def slice_state(self, directory: Path) -> RuntimeState:
        said = _read(directory)
        if said is None:
            return RuntimeState.ABSENT
        if "ended" in said:
            return RuntimeState.ENDED
        return RuntimeState.READY if self._clock() >= said["ready"] else RuntimeState.STARTING

    def slice_failure(self, directory: Path) -> str:
        return "its simulated process ended"

    def start_worker(self, directory: Path) -> None:
        if self.worker_state(directory) is WorkerState.ABSENT:
            word, seconds = json.loads((directory / "job.json").read_text())["command"]
            end = self._clock() + float(seconds)
            _write(directory, {"start": self._clock(), "end": end, "code": int(word == "fail"), "signal": None})

    def worker_state(self, directory: Path) -> WorkerState:
        said = _read(directory)
        if said is None:
            return WorkerState.ABSENT
        return WorkerState.EXITED if self._clock() >= said["end"] else WorkerState.RUNNING

    def worker_exit(self, directory: Path) -> Exit | None:
        said = _read(directory)
        if said is None or self._clock() < said["end"]:
            return None
        code = said["code"] if said["signal"] is None else None
        return Exit(code, said["signal"], said["start"], said["end"])

    def give_notice(self, directory: Path, seconds: float) -> None:
        """It does not listen, and is killed in the end."""
        said = _read(directory)
        if said is not None and self._clock() + seconds < said["end"]:
            _write(directory, said | {"end": self._clock() + seconds, "signal": int(signal.SIGKILL)})

    def command_pid(self, directory: Path) -> int | None:
        return None

    def end_leftovers(self, directory: Path) -> int:
        return 0

    def end(self, directory: Path, *, kill: bool = False) -> None:
        said = _read(directory)
        if said is None:
            return
        if "ready" in said:
            _write(directory, said | {"ended": True})
        elif self._clock() < said["end"]:
            signum = signal.SIGKILL if kill else signal.SIGTERM
            _write(directory, said | {"end": self._clock(), "signal": int(signum)})

    def is_alive(self, directory: Path) -> bool:
        said = _read(directory)
        return said is not None and "ended" not in said and self._clock() < said.get("end", float("inf"))

    def identity(self, directory: Path) -> ProcessId | None:
        return None


class Simulation:
    """A control plane of ``folder`` that takes its steps when it is told to."""

    def __init__(self, folder: Path, fleet: FleetFile, seed: int = 0) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.fleet = fleet
        self.clock = Clock()
        self.random = random.Random(seed)  # noqa: S311 not a secret
        self.executor = SimulatedExecutor(self.clock)
        self.plane = self._made()

    def _made(self) -> ControlPlane:
        home = Home(self.folder)
        store = Store(home.database, self.clock, lambda: f"{self.random.getrandbits(48):012x}")
        return ControlPlane(home, self.executor, store, self.fleet)

    def restart(self) -> None:
        """The control plane dies, whatever it was about to do, and another takes its place."""
        self.plane.store.close()
        self.plane = self._made()

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Let so much time go by, then look at everything once."""
        self.clock.now += seconds
        self.plane.step()
        assert self.plane.trouble is None, self.plane.trouble

    def step_and_die(self, changes: int, seconds: float = STEP_SECONDS) -> None:
        """The same, but the control plane is killed as it is about to make one more change than so many."""
        store, left = self.plane.store, changes
        change = store.change

        @contextmanager
        def change_or_die() -> Iterator[Transaction]:
            nonlocal left
            left -= 1
            with change() as transaction:
                yield transaction
                if left < 0:
                    raise Killed

        store.change = change_or_die  # type: ignore[method-assign]
        with suppress(Killed):
            self.step(seconds)
        self.restart()

    def run(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.step()

    def job(self, project: str, name: str, command: Sequence[str], **more: object) -> None:
        request = {"name": name, "command": list(command), "workingDirectory": str(self.folder)} | more
        self.plane.create_job(project, JobRequest.model_validate(request))

    def events(self) -> list[tuple[float, str, str, str]]:
        """All that has happened: seconds from the start, resource, change, message without the ids of errors."""
        with self.plane.store.read() as reader:
            found = reader.events()
        return [(one.time - START, one.resource, one.change, ERROR_ID.sub("", one.message)) for one in found]


def _read(directory: Path) -> dict[str, float] | None:
    try:
        found: dict[str, float] = json.loads((directory / "process.json").read_text())
    except FileNotFoundError:
        return None
    return found


def _write(directory: Path, said: dict[str, object]) -> None:
    (directory / "process.json").write_text(json.dumps(said))
