"""What turns a module into results? The compiler and the engine of one slice, as the runtime uses them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from backend.compiler import compile_module
from backend.compiler.program import Identity, Program, TensorType
from backend.compiler.tiles import padded_bytes
from backend.errors import Unimplemented
from backend.hardware import Generation
from backend.pages import give_back
from backend.tensorcore.pool import Pool
from backend.tensorcore.value import Launch, Value

if TYPE_CHECKING:
    from backend.tensorcore.engine import Engine
    from backend.tensorcore.lowering import Host


class Loaded(Protocol):
    """A program in the engine, ready to run."""

    def run(self, arguments: Sequence[Value], host: Host | None = None) -> Launch: ...


class Machine(Protocol):
    """What the runtime needs of a slice's hardware."""

    def compile(self, module: bytes, options: bytes) -> Program:
        """Compile a StableHLO module with serialized XLA compile options. Raises TpuError."""
        ...

    def identify(self, module: bytes, options: bytes) -> Identity:
        """What makes a module the same program as another one. Raises TpuError."""
        ...

    def load(self, program: Program) -> Loaded: ...

    def padded_bytes(self, kind: TensorType) -> int:
        """HBM that a value takes on one core, tile padding included."""
        ...

    def allocate(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Host memory for a value that comes from outside."""
        ...

    def recycle(self, value: Value) -> None:
        """Take back the memory of a value that nobody refers to any more."""
        ...

    def warm_up(self) -> None:
        """Import what the first compilation needs."""
        ...


class EmulatedMachine:
    """Our compiler and lockstep engine, imported when the first program comes or the machine is warmed up."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._pool = Pool()
        self._engine: Engine | None = None
        self._starting = threading.Lock()

    def compile(self, module: bytes, options: bytes) -> Program:
        try:
            return compile_module(module, options, self._generation)
        except ModuleNotFoundError as error:
            raise Unimplemented(
                f"the slice runtime cannot compile: {error.name} is not installed; pip install 'tpuctl[jax]'"
            ) from error

    def identify(self, module: bytes, options: bytes) -> Identity:
        from backend.compiler.identity import identify  # jaxlib is imported when first needed

        return identify(module, options)

    def load(self, program: Program) -> Loaded:
        return self._running_engine().load(program)

    def padded_bytes(self, kind: TensorType) -> int:
        return padded_bytes(kind)

    def allocate(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return self._pool.take((nbytes,), np.dtype(np.uint8))

    def recycle(self, value: Value) -> None:
        self._pool.give(value.array)

    def warm_up(self) -> None:
        try:
            from backend.compiler.compile import warm_up
        except ModuleNotFoundError:
            return
        warm_up()
        self._running_engine()
        for library in ("libllvmlite.so", "libjax_common.so"):
            give_back(library)

    def _running_engine(self) -> Engine:
        with self._starting:
            if self._engine is None:
                from backend.ici import collectives
                from backend.tensorcore.engine import KERNELS, Engine

                self._engine = Engine({**KERNELS, **collectives.KERNELS}, pool=self._pool)
            return self._engine
