"""What turns a module into results? The compiler and the engine of one slice, as the runtime uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.compiler import compile_module
from backend.compiler.memory import padded_bytes
from backend.compiler.program import Program, TensorType
from backend.errors import Unimplemented
from backend.hardware import Generation
from backend.ici import collectives
from backend.tensorcore.engine import KERNELS, Engine, Launch, Value


class Loaded(Protocol):
    """A program in the engine, ready to run."""

    def run(self, arguments: Sequence[Value]) -> Launch: ...


class Machine(Protocol):
    """What the runtime needs of a slice's hardware."""

    def compile(self, module: bytes, options: bytes) -> Program:
        """Compile a StableHLO module with serialized XLA compile options. Raises TpuError."""
        ...

    def load(self, program: Program) -> Loaded: ...

    def padded_bytes(self, kind: TensorType) -> int:
        """HBM that a value takes on one core, tile padding included."""
        ...

    def recycle(self, value: Value) -> None:
        """Take back the memory of a value that nobody refers to any more."""
        ...

    def warm_up(self) -> None:
        """Import what the first compilation needs."""
        ...


class EmulatedMachine:
    """Our compiler and lockstep engine."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._engine = Engine({**KERNELS, **collectives.KERNELS}, generation)

    def compile(self, module: bytes, options: bytes) -> Program:
        try:
            return compile_module(module, options, self._generation)
        except ModuleNotFoundError as error:
            raise Unimplemented(
                f"the slice runtime cannot compile: {error.name} is not installed; pip install 'tpuctl[jax]'"
            ) from error

    def load(self, program: Program) -> Loaded:
        return self._engine.load(program)

    def padded_bytes(self, kind: TensorType) -> int:
        return padded_bytes(kind)

    def recycle(self, value: Value) -> None:
        self._engine.recycle(value)

    def warm_up(self) -> None:
        try:
            from backend.compiler.compile import warm_up
        except ModuleNotFoundError:
            return
        warm_up()
