"""A slice in this process whose machine runs Python functions, and a client that speaks to it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.compiler.program import Computation, Cost, Identity, Instruction, MemoryStats, Program, TensorType
from backend.errors import InvalidArgument
from backend.link.client import Connection
from backend.link.messages import POSITIONS, Compile, Done, Execute, Failure, Fetch, Fetched, Message, Put, Reply
from backend.link.messages import MemoryStats as AskMemory
from backend.runtime.server import Server
from backend.runtime.slice import Slice
from backend.tensorcore.value import Launch, Value

F4 = np.dtype("float32")
TOKEN = "the token"  # noqa: S105


@dataclass
class Recipe:
    """A program of the test machine: what it takes and makes, and the function that does it."""

    function: Callable[[list[np.ndarray[Any, Any]]], list[np.ndarray[Any, Any]]]
    parameters: list[TensorType]
    results: list[TensorType]
    cores: list[int] = field(default_factory=lambda: [0])
    donated: list[int] = field(default_factory=list)
    source: str = ""


class TestMachine:
    """Runs recipes by name. Sizes are not padded."""

    __test__ = False

    def __init__(self) -> None:
        self.recipes: dict[str, Recipe] = {}
        self.seen: list[list[Value]] = []
        self.made: list[list[Value]] = []
        self.recycled: list[Value] = []
        self.compiled: list[str] = []

    def compile(self, module: bytes, options: bytes) -> Program:
        name = module.decode()
        self.compiled.append(name)
        if name not in self.recipes:
            raise InvalidArgument(f"no recipe {name}")
        recipe = self.recipes[name]
        count = len(recipe.parameters)
        returns = list(range(count, count + len(recipe.results)))
        steps = [Instruction("step", [], [], source=recipe.source)] if recipe.source else []
        body = Computation(list(range(count)), [*recipe.parameters, *recipe.results], steps, returns)
        return Program(
            name=name,
            num_replicas=1,
            num_partitions=len(recipe.cores),
            device_ids=recipe.cores,
            body=body,
            schedule=body,
            donated=recipe.donated,
            replicated=[False] * count,
            memory=MemoryStats(),
            cost=Cost(),
            optimized_module=b"",
        )

    def identify(self, module: bytes, options: bytes) -> Identity:
        cores = self.recipes[module.decode()].cores
        return Identity(module if len(cores) > 1 else module.split(b" on ")[0], cores)

    def load(self, program: Program) -> LoadedRecipe:
        return LoadedRecipe(self, self.recipes[program.name])

    def padded_bytes(self, kind: TensorType) -> int:
        return kind.nbytes

    def allocate(self, nbytes: int) -> np.ndarray[Any, Any]:
        return np.empty(nbytes, np.uint8)

    def recycle(self, value: Value) -> None:
        self.recycled.append(value)

    def warm_up(self) -> None:
        return


@dataclass
class LoadedRecipe:
    machine: TestMachine
    recipe: Recipe

    def run(self, arguments: Sequence[Value]) -> Launch:
        self.machine.seen.append(list(arguments))
        results = self.recipe.function([argument.array for argument in arguments])
        kinds = self.recipe.results
        values = [Value(array, array.shape == kind.shape) for array, kind in zip(results, kinds, strict=True)]
        self.machine.made.append(values)
        return Launch(values, 0.25, 0.125)


class Driver:
    """A driver client as small as can be. Numbers are those of columns."""

    def __init__(self, address: str, job: str = "test", token: str = "", **process: Any) -> None:
        self.link = Connection(address, "driver", job, token, timeout=5.0, **process)
        self.done = 0
        self.failures: dict[int, Failure] = {}
        self.replies: list[Reply] = []
        self._sequence = itertools.count(1)
        self._requests = itertools.count(1)

    def submit(self, make: Callable[[int], Message]) -> int:
        sequence = next(self._sequence)
        self.link.send(make(sequence))
        return sequence

    def put(self, number: int, array: np.ndarray[Any, Any], core: int = 0) -> int:
        name, shape, data = array.dtype.name, list(array.shape), array.tobytes()
        buffer = number * POSITIONS
        return self.submit(lambda sequence: Put(sequence, buffer, core, "device", name, shape, data))

    def compile(self, executable: int, module: str, fingerprint: str = "") -> Reply:
        return self.ask(lambda request: Compile(request, executable, module.encode(), b"", fingerprint))

    def execute(self, executable: int, inputs: list[int | list[int]], outputs: int, keep: Sequence[int] = ()) -> int:
        """An input is a column, or the columns of single buffers."""
        named = [[each * POSITIONS for each in i] if isinstance(i, list) else i for i in inputs]
        return self.submit(lambda sequence: Execute(sequence, executable, named, outputs, [], list(keep)))

    def fetch(self, number: int, size: int, position: int = 0) -> bytes:
        """Raises KeyError of the failure's message if the buffer has an error."""
        buffer = number * POSITIONS + position
        sequence = self.submit(lambda sequence: Fetch(sequence, buffer, 0, size, None))
        self.wait(sequence)
        if sequence in self.failures:
            raise KeyError(self.failures[sequence].message)
        return next(r.data for r in self.replies if isinstance(r, Fetched) and r.sequence == sequence)

    def floats(self, number: int, count: int, position: int = 0) -> list[float]:
        return [float(x) for x in np.frombuffer(self.fetch(number, 4 * count, position), F4)]

    def memory(self, core: int = 0) -> int:
        return int(self.ask(lambda request: AskMemory(request, core)).bytes_in_use)

    def ask(self, make: Callable[[int], Message]) -> Any:
        request = next(self._requests)
        self.link.send(make(request))
        return self.read_until(lambda: [r for r in self.replies if getattr(r, "request", None) == request])[0]

    def wait(self, sequence: int) -> Failure | None:
        self.read_until(lambda: self.done >= sequence)
        return self.failures.get(sequence)

    def read_until(self, reached: Callable[[], Any], timeout: float = 5.0) -> Any:
        deadline = time.monotonic() + timeout
        while not (found := reached()):
            assert time.monotonic() < deadline, "the slice does not answer"
            for reply in self.link.receive(0.1):
                self.replies.append(reply)
                if isinstance(reply, Done):
                    self.done = reply.through
                    self.failures |= {failure.sequence: failure for failure in reply.failures}
        return found


@dataclass
class Running:
    """A slice under test."""

    chips: Slice
    machine: TestMachine
    directory: Path
    port: int
    gate: threading.Event
    """What the program "wait" waits for."""

    @property
    def unix(self) -> str:
        return f"unix://{self.directory}/link.sock"

    @property
    def tcp(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def hbm_in_use(self) -> int:
        return int(self.chips.hbm.in_use.sum())

    def wait_until(self, reached: Callable[[], bool], timeout: float = 5.0) -> None:
        deadline = time.monotonic() + timeout
        while not reached():
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.01)


def fail(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    raise InvalidArgument("the program failed")


@pytest.fixture
def slices() -> int:
    """How many v3-8 slices the runtime has, each with one host and 8 cores."""
    return 1


@pytest.fixture
def running(tmp_path: Path, slices: int) -> Iterator[Running]:
    machine = TestMachine()
    gate = threading.Event()
    vector = TensorType((4,), F4)
    machine.recipes = {
        "add1": Recipe(lambda a: [a[0] + np.float32(1)], [vector], [vector]),
        "add1 in place": Recipe(lambda a: [a[0] + np.float32(1)], [vector], [vector], donated=[0]),
        "add1 on 4": Recipe(lambda a: [a[0] + np.float32(1)], [vector], [vector], cores=[0, 1, 2, 3]),
        "fail": Recipe(fail, [vector], [vector]),
        "crash": Recipe(lambda a: [a[1]], [vector], [vector]),
        "wait": Recipe(lambda a: [a[0]] if gate.wait(20) else [], [vector], [vector]),
        "16 GiB": Recipe(lambda a: [], [vector], [TensorType((1 << 32,), F4)]),
    }
    chips = Slice("test", "v3-8", machine, slices=slices)
    server = Server(chips, tmp_path / "link.sock", "127.0.0.1", 0, TOKEN)
    server.start()
    yield Running(chips, machine, tmp_path, server.port, gate)
    gate.set()
    server.close()


@pytest.fixture
def connect(running: Running) -> Iterator[Callable[..., Driver]]:
    """Opens driver clients, on the Unix socket if nothing else is said."""
    drivers = []

    def open_driver(address: str | None = None, **options: Any) -> Driver:
        drivers.append(Driver(address or running.unix, **options))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        driver.link.close()


@pytest.fixture(params=["unix", "tcp"])
def driver(request: pytest.FixtureRequest, running: Running, connect: Callable[..., Driver]) -> Driver:
    """A driver on each of the transports."""
    return connect(running.unix) if request.param == "unix" else connect(running.tcp, token=TOKEN)
