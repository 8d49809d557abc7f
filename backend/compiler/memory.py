"""How many bytes of HBM does a program need? Arguments, results, and the most that is stored at once in between."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.compiler.materialize import Step, bitcast_roots, steps
from backend.compiler.program import Computation, Instruction, MemoryStats, TensorType
from backend.compiler.tiles import layout_of, padded_bytes

_CONTROL_FLOW = frozenset({"while", "case", "if"})
_ALIGNMENT = 1024
_POINTER_BYTES = 4
_CODE_BYTES = 64
_FFT_PLANES = 4
_PANEL = 128
_WITH_SCRATCH = frozenset("sort top_k reduce_window fft cholesky qr lu eigh triangular_solve".split())


@dataclass(frozen=True)
class Buffer:
    """One allocation of HBM: what for ("argument", "output", "HLO temp"), its type, and the operation it comes from."""

    role: str
    kind: TensorType
    op: str
    source: str

    @property
    def hbm_bytes(self) -> int:
        return padded_bytes(self.kind)


def plan_memory(computation: Computation, donated: Sequence[int]) -> MemoryStats:
    """HBM of one core for a simplified program, before anything of it runs."""
    arguments = [padded_bytes(computation.types[value]) for value in computation.parameters]
    results = [padded_bytes(computation.types[value]) for value in computation.returns]
    aliased = _aliased(computation, donated)
    own = sum(size for position, size in enumerate(results) if position not in aliased)
    return MemoryStats(
        argument_bytes=sum(arguments),
        output_bytes=sum(results) + _tuple_bytes(len(results)),
        alias_bytes=sum(results[position] for position in aliased),
        temp_bytes=max(0, _Timeline(computation, aliased).peak_bytes - own),
        code_bytes=_CODE_BYTES * len(computation.instructions),
    )


def needed_bytes(memory: MemoryStats) -> int:
    """HBM of one core that must be there for the program to run."""
    return memory.argument_bytes + memory.output_bytes - memory.alias_bytes + memory.temp_bytes


def largest_buffers(computation: Computation, donated: Sequence[int], count: int) -> list[Buffer]:
    """The ``count`` largest of the buffers that are there when the program needs most."""
    aliased = _aliased(computation, donated)
    types = computation.types
    makers = {value: (i.op, i.source) for i in computation.instructions for value in i.results}
    makers |= {value: (f"parameter({number})", "") for number, value in enumerate(computation.parameters)}
    rows = [Buffer("argument", types[value], *makers[value]) for value in computation.parameters]
    rows += [
        Buffer("output", types[value], *makers[value])
        for position, value in enumerate(computation.returns)
        if position not in aliased
    ]
    rows += _Timeline(computation, aliased).live_at_peak()
    return sorted(rows, key=lambda row: -row.hbm_bytes)[:count]


def usable_donations(computation: Computation, offered: Sequence[int]) -> list[int]:
    """The parameters of those offered whose memory a result takes; the others are not donated."""
    return sorted(_donors(computation, offered).values())


def _aliased(computation: Computation, donated: Sequence[int]) -> set[int]:
    """Positions of the results that take the memory of a donated parameter."""
    return set(_donors(computation, donated))


def _donors(computation: Computation, offered: Sequence[int]) -> dict[int, int]:
    """For positions of results the parameter whose memory they take: the next one free of the same size."""
    free: dict[int, deque[int]] = defaultdict(deque)
    for number in offered:
        free[padded_bytes(computation.types[computation.parameters[number]])].append(number)
    donors = {}
    for position, value in enumerate(computation.returns):
        if fitting := free[padded_bytes(computation.types[value])]:
            donors[position] = fitting.popleft()
    return donors


def _tuple_bytes(count: int) -> int:
    """The table of pointers to several results."""
    return -(-count * _POINTER_BYTES // _ALIGNMENT) * _ALIGNMENT if count > 1 else 0


def _scratch(instruction: Instruction, types: list[TensorType], from_outside: bool) -> list[TensorType]:
    """What an operation needs while it runs, beside operands and results.

    A sort carries each element's place to be stable, and along the minor dimension works on a transposed copy of what
    comes ``from_outside``, in the default layout. The largest elements are also found in a transposed copy, and running
    sums made in one. An FFT is done as matrix products in two passes, with planes for the real and imaginary parts of
    each. A factorisation goes over a copy of its matrix in panels.
    """
    if instruction.op not in _WITH_SCRATCH:
        return []
    first, attributes = types[instruction.operands[0]], instruction.attributes
    copies = 1
    if instruction.op == "sort":
        along_lanes = layout_of(first).minor_to_major[:1] == (attributes["dimension"],)
        moved = instruction.operands if from_outside and along_lanes and len(first.shape) > 1 else []
        return [TensorType(first.shape, np.dtype(np.int32)), *(types[value] for value in moved)]
    if instruction.op == "reduce_window":
        copies = int(any(1 < size == whole for size, whole in zip(attributes["window"], first.shape, strict=True)))
    elif instruction.op == "fft":
        first, copies = max((first, types[instruction.results[0]]), key=padded_bytes), _FFT_PLANES
    elif instruction.op != "top_k":
        panel = TensorType((*first.shape[:-1], min(first.shape[-1], _PANEL)), first.dtype)
        return [first, panel, panel]
    return [first] * copies


class _Timeline:
    """What is stored when. Results count from when they are written, but not those that have a parameter's memory."""

    def __init__(self, computation: Computation, aliased: set[int] | None) -> None:
        self._types = computation.types
        roots = bitcast_roots(computation)
        self._steps = steps(computation, roots)
        returned = {value: position for position, value in enumerate(computation.returns)}
        self._outputs = {roots.get(value, value) for value in returned}
        skipped = returned if aliased is None else [v for v, position in returned.items() if position in aliased]
        self._elsewhere = {
            *computation.parameters,
            *(inner for inner, _ in computation.captures),
            *(roots.get(value, value) for value in skipped),
        }
        self._last_read: dict[int, int] = {}
        for index, step in enumerate(self._steps):
            for value in (*step.reads, *step.stores):
                self._last_read[value] = index
        self.peak_bytes = 0
        self._peak_step = -1
        for index, in_use in enumerate(self._bytes_in_use()):
            if in_use > self.peak_bytes:
                self.peak_bytes, self._peak_step = in_use, index

    def _bytes_in_use(self) -> list[int]:
        """Most bytes during each step."""
        live: dict[int, int] = {}
        in_use = 0
        rows = []
        for index, step in enumerate(self._steps):
            dying = [v for v in step.reads if v in live and self._last_read[v] == index and v not in self._outputs]
            reusable = Counter(live[value] for value in dying) if step.in_place else Counter()
            reused = 0
            for value, kind in step.stores.items():
                if value in self._elsewhere:
                    continue
                live[value] = padded_bytes(kind)
                in_use += live[value]
                if reusable[live[value]]:
                    reusable[live[value]] -= 1
                    reused += live[value]
            rows.append(in_use - reused + self._inside(step))
            gone = dying + [v for v in step.stores if self._last_read[v] == index and v not in self._outputs]
            in_use -= sum(live.pop(value, 0) for value in gone)
        return rows

    def _inside(self, step: Step) -> int:
        instruction = step.instruction
        if instruction.op in _CONTROL_FLOW:
            return max((_Timeline(region, None).peak_bytes for region in instruction.regions), default=0)
        return sum(padded_bytes(kind) for kind in self._scratch(step))

    def _scratch(self, step: Step) -> list[TensorType]:
        return _scratch(step.instruction, self._types, not self._elsewhere.isdisjoint(step.reads))

    def live_at_peak(self) -> list[Buffer]:
        """Temporaries that are stored while most is in use."""
        rows = []
        for index, step in enumerate(self._steps[: self._peak_step + 1]):
            op, source = step.instruction.op, step.instruction.source
            for value, kind in step.stores.items():
                if self._last_read[value] >= self._peak_step and value not in self._elsewhere | self._outputs:
                    rows.append(Buffer("HLO temp", kind, op, source))
            if index == self._peak_step:
                rows += [Buffer("HLO temp", kind, op, source) for kind in self._scratch(step)]
                inner = [_Timeline(region, None) for region in step.instruction.regions]
                if step.instruction.op in _CONTROL_FLOW:
                    rows += max(inner, key=lambda timeline: timeline.peak_bytes).live_at_peak()
        return rows
