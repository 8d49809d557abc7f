"""How does a compiled program run on the cores? In lockstep: every step is done for all cores together.

``Engine.load`` lowers a program once for each combination of uniform and per-core arguments that it is launched with;
``Loaded.run`` binds arguments and outputs and walks the steps.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.compiler.program import Program, TensorType
from backend.compiler.schedule import schedule
from backend.tensorcore import (
    control,
    convolution,
    fusion,
    host_transfers,
    indexing,
    linalg,
    movement,
    mxu,
    ragged,
    random,
    reduction,
    selection,
    sorting,
    window,
)
from backend.tensorcore.arena import Arena, Layout
from backend.tensorcore.denormals import flush_denormals
from backend.tensorcore.lowering import Block, Context, Host, Kernel, Slot, lower, template
from backend.tensorcore.pool import Pool
from backend.tensorcore.threads import Workers
from backend.tensorcore.value import Launch, Value

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS: dict[str, Kernel] = {
    **movement.KERNELS,
    **fusion.KERNELS,
    **mxu.KERNELS,
    **convolution.KERNELS,
    **reduction.KERNELS,
    **window.KERNELS,
    **selection.KERNELS,
    **indexing.KERNELS,
    **linalg.KERNELS,
    **ragged.KERNELS,
    **random.KERNELS,
    **sorting.KERNELS,
    **control.KERNELS,
    **host_transfers.KERNELS,
}


class Engine:
    """The cores of one slice. One program runs at a time."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        threads: int | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.kernels = kernels
        self.workers = Workers(threads)
        self.arena = Arena()
        self.pool = pool or Pool()

    def load(self, program: Program) -> Loaded:
        """Lower ``program``. Raises Unimplemented for an operation that has no kernel."""
        return Loaded(self, program)


@dataclass
class _Variant:
    """A program lowered for one choice of uniform parameters."""

    block: Block
    context: Context
    results: list[tuple[int, bool, tuple[int, ...], np.dtype[Any]]]
    """Of each result its value, whether it is uniform, and the shape and type of its array."""
    written: list[tuple[int, int]]
    """Values that steps write into the arrays of results, and which results those are."""
    transient: list[int]


class Loaded:
    """A program ready to be launched."""

    def __init__(self, engine: Engine, program: Program) -> None:
        self._engine = engine
        self._program = program
        self._variants: dict[tuple[bool, ...], _Variant] = {}
        self._lock = threading.Lock()
        self._variant(tuple(program.replicated))

    def run(self, arguments: Sequence[Value], host: Host | None = None) -> Launch:
        """Run once. Arguments are those of all cores, in the order of the parameters; they are left as they are.

        ``host`` is where the program's callbacks are, if it has any. Raises the error of a callback that fails.
        """
        program = self._program
        variant = self._variant(tuple([argument.uniform for argument in arguments]))
        block, take = variant.block, self._engine.pool.take
        environment = block.environment
        variant.context.host = host
        for value, argument in zip(block.parameters, arguments, strict=True):
            environment[value] = argument.array
        outputs = [take(shape, dtype) for _, _, shape, dtype in variant.results]
        for value, result in variant.written:
            environment[value] = outputs[result]
        flush_denormals(True)
        try:
            with np.errstate(all="ignore"):
                block.run()
        finally:
            flush_denormals(False)
        results = []
        for (value, uniform, _, _), array in zip(variant.results, outputs, strict=True):
            if environment[value] is not array:
                np.copyto(array, environment[value])
            results.append(Value(array, uniform))
        for value in variant.transient:
            environment[value] = None  # keep nobody's memory alive
        return Launch(results, program.cost.device_seconds, program.cost.mxu_seconds)

    def _variant(self, uniform: tuple[bool, ...]) -> _Variant:
        with self._lock:
            if uniform not in self._variants:
                self._variants[uniform] = self._lower(uniform)
            return self._variants[uniform]

    def _lower(self, uniform: tuple[bool, ...]) -> _Variant:
        program, cores = self._program, self._program.num_cores
        if list(uniform) == program.replicated:
            computation = program.schedule
        else:
            computation = schedule(program.body, list(uniform), cores)
        parameters = [
            Slot(template(_shape(kind, flag, cores), kind.dtype), static=False)
            for kind, flag in zip(program.parameters, uniform, strict=True)
        ]
        context = Context(self._engine.kernels, self._engine.arena, Layout(), self._engine.workers, cores)
        block = lower(computation, parameters, context, outputs=frozenset(computation.returns))
        results = [
            (value, computation.uniform[value], _shape(kind, computation.uniform[value], cores), kind.dtype)
            for value, kind in zip(block.returns, program.results, strict=True)
        ]
        written = [(value, block.returns.index(value)) for value in block.written]
        return _Variant(block, context, results, written, block.transient)


def _shape(kind: TensorType, uniform: bool, cores: int) -> tuple[int, ...]:
    return kind.shape if uniform else (cores, *kind.shape)
