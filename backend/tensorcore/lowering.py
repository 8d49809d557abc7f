"""How does a scheduled computation become steps over arrays in memory? Once, when a program is loaded.

A value of a computation is an array: a uniform value has the shape of one core's part, a per-core value one more
leading axis, the cores. Temporaries have their place in the arena before anything runs, views of them are made then
too; what is left for a launch is a list of steps that read and write an environment, a list of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from backend.compiler.program import Computation, Instruction, TensorType, reaches_host
from backend.compiler.simplify import uses
from backend.errors import Unimplemented
from backend.tensorcore.arena import Arena, Layout, strided
from backend.tensorcore.threads import Workers

Array = np.ndarray[Any, np.dtype[Any]]
Environment = list[Any]
Step = Callable[[Environment], None]

CONTROL_FLOW = frozenset({"while", "case", "if"})
_FOREVER = 1 << 60


@dataclass
class Slot:
    """Where a value is: ``array`` itself if ``static``; else only its shape, dtype and strides are meant.

    ``constant`` values hold their data already when the program is loaded. ``owner`` is the offset of the arena range
    that the value lies in; a negative number stands for memory that belongs to somebody else.
    """

    array: Array
    static: bool
    constant: bool = False
    owner: int | None = None


@dataclass
class Block:
    """A lowered computation: run its steps on its environment.

    ``written`` are the outputs that steps write into arrays of the caller; other returned values are copied from.
    """

    environment: Environment
    steps: list[Step]
    parameters: list[int]
    returns: list[int]
    slots: list[Slot]
    captures: list[tuple[int, int]]
    held: list[int]
    written: frozenset[int]

    @property
    def transient(self) -> list[int]:
        """Values that have no fixed place: they differ from run to run."""
        return [value for value, slot in enumerate(self.slots) if slot is not None and not slot.static]

    def run(self) -> None:
        environment = self.environment
        for step in self.steps:
            step(environment)

    def capture(self, outer: Environment) -> None:
        """Bind the captured values that have no fixed place."""
        for inner, outside in self.captures:
            self.environment[inner] = outer[outside]


class Host(Protocol):
    """The callbacks of the script that launched a program."""

    def send(self, channel: int, core: int, part: Array) -> None:
        """Hand over one core's value. Raises TpuError if a callback failed or the script is gone."""
        ...

    def receive(self, channel: int, parts: Sequence[tuple[int, Array]]) -> None:
        """Wait for the callbacks' answers: for each core an array to put its answer into. Raises TpuError."""
        ...


@dataclass
class Context:
    """What all computations of one program share.

    ``active``, while it runs: the cores that are really in the branch or loop that all go through together.
    ``host``, while a program runs that needs it: the way to the callbacks of the script.
    """

    kernels: Mapping[str, Kernel]
    arena: Arena
    layout: Layout
    workers: Workers
    num_cores: int
    active: Array | None = None
    host: Host | None = None


@dataclass
class Site:
    """One instruction as its kernel sees it: operands and results with the core axis where they are per-core."""

    instruction: Instruction
    computation: Computation
    context: Context
    slots: list[Slot]
    constant: bool = False
    _scratch: list[int] = field(default_factory=list)

    @property
    def attributes(self) -> dict[str, Any]:
        return self.instruction.attributes

    @property
    def workers(self) -> Workers:
        return self.context.workers

    @property
    def num_cores(self) -> int:
        return self.context.num_cores

    def operand(self, position: int) -> Array:
        """The operand's array, or one of its shape and strides only (see Slot)."""
        return self.slots[self.instruction.operands[position]].array

    def constant_operand(self, position: int) -> Array | None:
        """The operand's data if no launch changes it."""
        slot = self.slots[self.instruction.operands[position]]
        return slot.array if slot.constant else None

    def uniform(self, position: int) -> bool:
        return self.computation.uniform[self.instruction.operands[position]]

    def operand_type(self, position: int) -> TensorType:
        return self.computation.types[self.instruction.operands[position]]

    def result_type(self, position: int = 0) -> TensorType:
        return self.computation.types[self.instruction.results[position]]

    @property
    def lead(self) -> int:
        """1 if the result has a core axis, else 0."""
        return 0 if self.computation.uniform[self.instruction.results[0]] else 1

    def full_shape(self, value: int) -> tuple[int, ...]:
        shape = self.computation.types[value].shape
        return shape if self.computation.uniform[value] else (self.num_cores, *shape)

    def result_shape(self, position: int = 0) -> tuple[int, ...]:
        return self.full_shape(self.instruction.results[position])

    def reader(self, position: int) -> Callable[[Environment], Array]:
        """Reads an operand with the result's core axis: a uniform operand of a per-core result is broadcast."""
        value = self.instruction.operands[position]
        if self.lead and self.computation.uniform[value]:
            shape = (self.num_cores, *self.computation.types[value].shape)
            return lambda env: np.broadcast_to(env[value], shape)
        return lambda env: env[value]

    def scratch(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Memory for this step alone. A constant is computed while another program may run: not in the arena."""
        kind = np.dtype(dtype)
        if self.constant:
            return np.empty(shape, kind)
        offset = self.context.layout.allocate(int(np.prod(shape, dtype=np.int64)) * kind.itemsize)
        self._scratch.append(offset)
        return self.context.arena.array(offset, shape, kind)

    def region(self, position: int, parameters: list[Slot], may_overwrite: bool = False) -> Block:
        """Lower a region with its parameters in the given places. Its memory is this step's."""
        computation = self.instruction.regions[position]
        captured = {inner: self.slots[outer] for inner, outer in computation.captures}
        block = lower(computation, parameters, self.context, captured=captured, may_overwrite=may_overwrite)
        self._scratch += block.held
        return block

    def release(self) -> None:
        for offset in self._scratch:
            self.context.layout.release(offset)


View = Callable[[Array], Array]


@dataclass(frozen=True)
class Kernel:
    """How one operation is run.

    ``build`` makes the step that computes into the results' arrays. ``view``, tried first, may answer with a function
    that gives the result as a view of operand 0, at no cost. ``in_place``: the result may take over operand 0's place.
    """

    build: Callable[[Site], Step]
    view: Callable[[Site], View | None] | None = None
    in_place: bool = False


def lower(
    computation: Computation,
    parameters: list[Slot],
    context: Context,
    captured: dict[int, Slot] | None = None,
    outputs: frozenset[int] = frozenset(),
    may_overwrite: bool = False,
) -> Block:
    """Steps for a scheduled computation.

    ``parameters`` says where the parameters are; ``outputs`` names the values that the caller puts into the
    environment before each run, to be written; with ``may_overwrite`` parameters in fixed places are the computation's
    to change, once it has read them for the last time. What the block returns stays in the arena ranges that ``held``
    names, for the caller to release. Raises Unimplemented for an operation without a kernel.
    """
    return _Lowering(computation, parameters, context, captured or {}, outputs, may_overwrite).block()


def template(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of that shape, dtype and C strides, of which no element may be touched."""
    strides = []
    step = dtype.itemsize
    for dim in reversed(shape):
        strides.append(step)
        step *= max(1, dim)
    return strided(np.empty(1, dtype), shape, tuple(reversed(strides)))


class _Lowering:
    def __init__(
        self,
        computation: Computation,
        parameters: list[Slot],
        context: Context,
        captured: dict[int, Slot],
        outputs: frozenset[int],
        may_overwrite: bool,
    ) -> None:
        self._computation = computation
        self._context = context
        self._outputs = outputs
        self._slots: list[Any] = [None] * len(computation.types)
        self._environment: Environment = [None] * len(computation.types)
        self._steps: list[Step] = []
        self._holders: dict[int, int] = {}
        self._written: set[int] = set()
        self._last_use = _last_uses(computation)
        self._lent = frozenset(-1 - value for value in computation.parameters) if may_overwrite else frozenset()
        given = [*zip(computation.parameters, parameters, strict=True), *captured.items()]
        for value, slot in given:
            self._holders[-1 - value] = 1
            self._place(value, Slot(slot.array, slot.static, slot.constant, -1 - value))

    def block(self) -> Block:
        for index, instruction in enumerate(self._computation.instructions):
            self._lower(index, instruction)
            for value in {*uses(instruction), *instruction.results}:
                if self._last_use[value] == index:
                    self._drop(self._slots[value].owner)
        return Block(
            self._environment,
            self._steps,
            self._computation.parameters,
            self._computation.returns,
            self._slots,
            [(inner, outer) for inner, outer in self._computation.captures if not self._slots[inner].static],
            [owner for owner in self._holders if owner >= 0],
            frozenset(self._written),
        )

    def _lower(self, index: int, instruction: Instruction) -> None:
        if instruction.op == "constant":
            self._place(instruction.results[0], Slot(instruction.attributes["value"], static=True, constant=True))
            return
        kernel = self._context.kernels.get(instruction.op)
        if kernel is None:
            raise Unimplemented(f"{instruction.op} is not supported yet ({instruction.source})")
        constant = self._computation.constant[instruction.results[0]] if instruction.results else False
        site = Site(instruction, self._computation, self._context, self._slots, constant)
        if kernel.view is not None and self._as_view(site, kernel.view):
            return
        for position, value in enumerate(instruction.results):
            self._place_result(
                site, position, value, constant, kernel.in_place and index == self._takeover(instruction)
            )
        if self._computes_nothing(instruction):
            return
        step = kernel.build(site)
        if constant:
            with np.errstate(all="ignore"):
                step(self._environment)
        else:
            self._steps.append(step)
        site.release()

    def _computes_nothing(self, instruction: Instruction) -> bool:
        sizes = [self._computation.types[value].size for value in instruction.results]
        return bool(sizes) and not any(sizes) and not reaches_host(instruction)

    def _as_view(self, site: Site, make: Callable[[Site], View | None]) -> bool:
        view = make(site)
        if view is None:
            return False
        value, source = site.instruction.results[0], site.instruction.operands[0]
        slot = self._slots[source]
        self._place(value, Slot(view(slot.array), slot.static, slot.constant, slot.owner))
        if slot.owner is not None:
            self._holders[slot.owner] += 1
        if not slot.static:
            self._steps.append(lambda env: env.__setitem__(value, view(env[source])))
        return True

    def _takeover(self, instruction: Instruction) -> int:
        """Index at which operand 0 dies, if its place could become the result's; else -1."""
        source = instruction.operands[0]
        slot = self._slots[source]
        same_kind = self._computation.uniform[source] == self._computation.uniform[instruction.results[0]]
        own = slot.owner is not None and (slot.owner >= 0 or slot.owner in self._lent)
        alone = own and self._holders[slot.owner] == 1
        plain = slot.array.flags.c_contiguous and slot.array.flags.writeable
        taken = slot.static and not slot.constant and same_kind and alone and plain
        return self._last_use[source] if taken and instruction.operands.count(source) == 1 else -1

    def _place_result(self, site: Site, position: int, value: int, constant: bool, take_over: bool) -> None:
        shape = site.full_shape(value)
        dtype = self._computation.types[value].dtype
        if constant:
            self._place(value, Slot(np.empty(shape, dtype), static=True, constant=True))
        elif value in self._outputs and site.instruction.op not in CONTROL_FLOW:
            self._place(value, Slot(template(shape, dtype), static=False))
            self._written.add(value)
        elif take_over and position == 0:
            slot = self._slots[site.instruction.operands[0]]
            self._place(value, Slot(slot.array, True, False, slot.owner))
            if slot.owner is not None:
                self._holders[slot.owner] += 1
        else:
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            owner = self._context.layout.allocate(nbytes)
            self._holders[owner] = 1
            self._place(value, Slot(self._context.arena.array(owner, shape, dtype), True, False, owner))

    def _place(self, value: int, slot: Slot) -> None:
        self._slots[value] = slot
        if slot.static:
            self._environment[value] = slot.array

    def _drop(self, owner: int | None) -> None:
        if owner is None:
            return
        self._holders[owner] -= 1
        if self._holders[owner] == 0:
            del self._holders[owner]
            if owner >= 0:
                self._context.layout.release(owner)


def _last_uses(computation: Computation) -> list[int]:
    """For each value the index of the last instruction that reads it; its own if none does; forever if returned."""
    last = [-1] * len(computation.types)
    for index, instruction in enumerate(computation.instructions):
        for value in (*uses(instruction), *instruction.results):
            last[value] = index
    for value in computation.returns:
        last[value] = _FOREVER
    return last
