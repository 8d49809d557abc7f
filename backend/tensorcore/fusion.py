"""How does the vector unit run a group of elementwise operations? Block by block, in cache.

All operations of a fusion share one iteration space. It is cut into blocks of about ``BLOCK`` elements; each block
goes through all the operations before the next is touched, so that intermediate values never leave the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from backend.compiler.program import Computation, Instruction
from backend.compiler.rounding import ROUND
from backend.tensorcore.arena import strided
from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.native import CONTIGUOUS, DIMS, REPEATED, STRIDED, Native, compile_fusion
from backend.tensorcore.vector import (
    BFLOAT16,
    Function,
    comparison,
    compute_dtype,
    conversion,
    next_after,
    reduce_precision,
    round_to_bfloat16,
    vector_function,
)

BLOCK = 1 << 16
_WORTH_COMPILING = 1 << 13
"""Elements from which on a fusion is worth the milliseconds that its machine code takes."""
_SHORT = 1 << 15
"""Elements up to which a call is so short that giving up Python's lock would cost more."""
_NARROWEST_ROW = 512
_SLOW_ON_SCALARS = frozenset({"maximum", "minimum", "clamp"})


@dataclass
class _Code:
    """A fusion's operations over registers: inputs first, then results and temporaries."""

    operations: list[tuple[Function, tuple[int, ...], int]]
    register_dtypes: list[np.dtype[Any]]
    loads: list[tuple[int, int]]  # (input, register): inputs that are converted before use
    direct: dict[int, int]  # register -> result that is computed in place
    stores: list[tuple[int, int]]  # (register, result): results that are converted at the end


def build(site: Site) -> Step:
    """The step of a fusion."""
    region = site.instruction.regions[0]
    space = site.result_shape()
    size = int(np.prod(space, dtype=np.int64))
    if size >= _WORTH_COMPILING and not site.constant:
        step = _native(site, space)
        if step is not None:
            return step
    code = _generate(region)
    if size <= BLOCK:
        return _single_block(site, code, space)
    return _blocked(site, code, space)


def _native(site: Site, space: tuple[int, ...]) -> Step | None:
    """The step of a fusion that has machine code."""
    operands = site.instruction.operands
    inputs = [np.broadcast_to(site.operand(i), space) for i in range(len(operands))]
    dims, strides = _coalesce(space, [array.strides for array in inputs])
    region = site.instruction.regions[0]
    items = [region.types[value].dtype.itemsize for value in (*region.parameters, *region.returns)]
    walks = tuple(_walk(strides[i], items[i]) for i in range(len(operands)))
    function = compile_fusion(region, walks)
    if function is None:
        return None
    steps = [*strides, *(_packed(dims, item) for item in items[len(operands) :])]
    axis, rows = _split(dims)
    if len(dims) - axis > DIMS:
        axis = len(dims) - DIMS
        rows = max(1, BLOCK // int(np.prod(dims[axis + 1 :], dtype=np.int64)))
    return _launcher(site, function, dims, steps, axis, rows)


def _walk(strides: tuple[int, ...], itemsize: int) -> str:
    """How an operand lies along the last dimension."""
    return CONTIGUOUS if strides[-1] == itemsize else REPEATED if strides[-1] == 0 else STRIDED


def _packed(dims: list[int], itemsize: int) -> tuple[int, ...]:
    return tuple(itemsize * int(np.prod(dims[d + 1 :], dtype=np.int64)) for d in range(len(dims)))


def _launcher(
    site: Site, function: Native, dims: list[int], steps: list[tuple[int, ...]], axis: int, rows: int
) -> Step:
    values = [*site.instruction.operands, *site.instruction.results]
    inner = dims[axis + 1 :]
    padding = [0] * (DIMS - 1 - len(inner))
    strides = np.array([[*padding, *step[axis:]] for step in steps], np.int64)
    starts = [
        (*outer, low) for outer in product(*(range(size) for size in dims[:axis])) for low in range(0, dims[axis], rows)
    ]
    offsets = np.array(starts, np.int64) @ np.array([step[: axis + 1] for step in steps], np.int64).T
    offsets = np.ascontiguousarray(offsets)
    sizes = [(*[1] * len(padding), min(rows, dims[axis] - start[-1]), *inner) for start in starts]
    bases = np.zeros(len(values), np.int64)
    moving = []
    for position, value in enumerate(values):
        if site.slots[value].static:
            bases[position] = site.slots[value].array.ctypes.data
        else:
            moving.append((position, value))
    at, row_bytes = offsets.ctypes.data, 8 * len(values)
    bases_at, strides_at, free = bases.ctypes.data, strides.ctypes.data, function.free

    def work(chunk: int, _: int) -> None:
        free(bases_at, at + chunk * row_bytes, strides_at, *sizes[chunk])

    def step(env: Environment) -> None:
        for position, value in moving:
            bases[position] = env[value].ctypes.data
        if len(starts) == 1:
            run(bases_at, at, strides_at, *sizes[0])
        else:
            site.workers.run(len(starts), work)

    run = function.held if int(np.prod(dims, dtype=np.int64)) <= _SHORT else free
    step.__dict__["memory"] = (bases, offsets, strides)  # addresses are no references
    return step


def _single_block(site: Site, code: _Code, space: tuple[int, ...]) -> Step:
    registers: list[Any] = [None] * len(code.register_dtypes)
    for number in range(len(site.instruction.operands), len(registers)):
        if number not in code.direct:
            registers[number] = site.scratch(space, code.register_dtypes[number])
    operands, results = site.instruction.operands, site.instruction.results
    operations, loads, stores, direct = code.operations, code.loads, code.stores, list(code.direct.items())

    def step(env: Environment) -> None:
        live = registers.copy()
        live[: len(operands)] = [env[value] for value in operands]
        for register, result in direct:
            live[register] = env[results[result]]
        for source, register in loads:
            np.copyto(live[register], live[source], casting="unsafe")
        for function, arguments, target in operations:
            function(*[live[a] for a in arguments], live[target])
        for register, result in stores:
            np.copyto(env[results[result]], live[register], casting="unsafe")

    return step


def _blocked(site: Site, code: _Code, space: tuple[int, ...]) -> Step:
    operands, results = site.instruction.operands, site.instruction.results
    inputs = [np.broadcast_to(site.operand(i), space) for i in range(len(operands))]
    dims, strides = _coalesce(space, [array.strides for array in inputs])
    axis, rows = _split(dims)
    inner = dims[axis + 1 :]
    chunks: list[Any] = [
        (*outer, slice(low, min(low + rows, dims[axis])))
        for outer in product(*(range(size) for size in dims[:axis]))
        for low in range(0, dims[axis], rows)
    ]
    block_shape = (rows, *inner)
    views = [_viewer(site, i, dims, strides[i]) for i in range(len(operands))]
    slow = _scalars_to_write_out(site.instruction.regions[0])
    tiled = [_tiles(strides[i], axis, inner) or (i in slow and not any(strides[i])) for i in range(len(operands))]
    tiles: list[Any] = [site.scratch(block_shape, inputs[i].dtype) if tiled[i] else None for i in range(len(operands))]
    scalars = [not any(strides[i]) and not tiled[i] for i in range(len(operands))]
    first = len(operands)
    registers = [
        [
            site.scratch(block_shape, dtype) if number >= first and number not in code.direct else None
            for number, dtype in enumerate(code.register_dtypes)
        ]
        for _ in range(site.workers.count)
    ]
    origin: tuple[Any, ...] = (0,) * axis

    def step(env: Environment) -> None:
        sources = [view(env) for view in views]
        for position, tile in enumerate(tiles):
            if tile is not None:
                source = sources[position]
                np.copyto(tile, source if source.ndim == 0 else source[(*origin, slice(0, 1))])
        targets = [env[value].reshape(dims) for value in results]

        def work(chunk: int, thread: int) -> None:
            index = chunks[chunk]
            count = index[-1].stop - index[-1].start
            live: list[Any] = [r if r is None or count == rows else r[:count] for r in registers[thread]]
            for position, source in enumerate(sources):
                if scalars[position]:
                    live[position] = source
                elif tiles[position] is not None:
                    live[position] = tiles[position][:count]
                else:
                    live[position] = source[index]
            for register, result in code.direct.items():
                live[register] = targets[result][index]
            for source_register, register in code.loads:
                np.copyto(live[register], live[source_register], casting="unsafe")
            for function, arguments, target in code.operations:
                function(*[live[a] for a in arguments], live[target])
            for register, result in code.stores:
                np.copyto(targets[result][index], live[register], casting="unsafe")

        site.workers.run(len(chunks), work)

    return step


def _viewer(site: Site, position: int, dims: list[int], strides: tuple[int, ...]) -> Callable[[Environment], Array]:
    """Gives an operand as an array of the coalesced dimensions; scalars as arrays of no dimension."""
    value = site.instruction.operands[position]
    slot = site.slots[value]
    if not any(strides):
        if slot.static:
            scalar = slot.array.reshape(-1)[:1].reshape(()) if slot.array.ndim <= 1 else _corner(slot.array)
            return lambda env: scalar
        return lambda env: _corner(env[value])
    if slot.static:
        view = strided(slot.array, dims, strides)
        return lambda env: view
    shape = tuple(dims)
    if slot.array.flags.c_contiguous and slot.array.size == int(np.prod(dims, dtype=np.int64)):
        return lambda env: env[value].reshape(shape)
    return lambda env: strided(env[value], shape, strides)


def _corner(array: Array) -> Array:
    return array[(0,) * array.ndim + (...,)]


def _coalesce(space: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Merge neighbouring dimensions wherever every operand (and the contiguous results) allows it."""
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(space):
        if size == 1:
            continue
        mergeable = bool(dims) and all(
            kept[-1] == operand[axis] * size for kept, operand in zip(steps, strides, strict=True)
        )
        if mergeable:
            dims[-1] *= size
            for kept, operand in zip(steps, strides, strict=True):
                kept[-1] = operand[axis]
        else:
            dims.append(size)
            for kept, operand in zip(steps, strides, strict=True):
                kept.append(operand[axis])
    return dims, [tuple(kept) for kept in steps]


def _split(dims: list[int]) -> tuple[int, int]:
    """The axis along which blocks are cut, and how many of its rows make a block."""
    inner = 1
    for axis in range(len(dims) - 1, 0, -1):
        if inner * dims[axis] > BLOCK:
            return axis, max(1, BLOCK // inner)
        inner *= dims[axis]
    return 0, max(1, min(dims[0], BLOCK // inner))


def _tiles(strides: tuple[int, ...], axis: int, inner: list[int]) -> bool:
    """Whether an operand repeats from block to block in rows so short that it is worth writing one block of it out."""
    repeats = not any(strides[: axis + 1]) and any(strides[axis + 1 :])
    return repeats and bool(inner) and inner[-1] < _NARROWEST_ROW


def _scalars_to_write_out(region: Computation) -> set[int]:
    """Operand numbers that feed functions which numpy runs much slower on scalars than on arrays."""
    positions = {value: position for position, value in enumerate(region.parameters)}
    slow = [i for i in region.instructions if i.op in _SLOW_ON_SCALARS]
    return {positions[value] for instruction in slow for value in instruction.operands if value in positions}


def _generate(region: Computation) -> _Code:
    kinds = [compute_dtype(kind.dtype) for kind in region.types]
    count = len(region.parameters)
    code = _Code([], [region.types[value].dtype for value in region.parameters], [], {}, [])
    register: dict[int, int] = {}

    def new(dtype: np.dtype[Any]) -> int:
        code.register_dtypes.append(dtype)
        return len(code.register_dtypes) - 1

    for position, value in enumerate(region.parameters):
        register[value] = position
        if kinds[value] != region.types[value].dtype:
            register[value] = new(kinds[value])
            code.loads.append((position, register[value]))
    last = {value: index for index, i in enumerate(region.instructions) for value in i.operands}
    results = {value: position for position, value in enumerate(region.returns)}
    free: dict[np.dtype[Any], list[int]] = {}
    for index, instruction in enumerate(region.instructions):
        value = instruction.results[0]
        dying = {v for v in instruction.operands if last[v] == index and v not in results}
        if value in results and kinds[value] == region.types[value].dtype:
            register[value] = new(kinds[value])
            code.direct[register[value]] = results[value]
        elif free.get(kinds[value]):
            register[value] = free[kinds[value]].pop()
        else:
            register[value] = new(kinds[value])
        code.operations.append(
            (
                _wrapped(_function(instruction, region), region.types[value].dtype),
                tuple(register[v] for v in instruction.operands),
                register[value],
            )
        )
        if value in results and kinds[value] != region.types[value].dtype:
            code.stores.append((register[value], results[value]))
        for operand in dying:
            number = register[operand]
            if number >= count and number not in code.direct:
                free.setdefault(kinds[operand], []).append(number)
    return code


def _function(instruction: Instruction, region: Computation) -> Function:
    if instruction.op == "compare":
        return comparison(instruction.attributes["direction"], instruction.attributes["total_order"])
    if instruction.op == "convert":
        target = region.types[instruction.results[0]].dtype
        source = compute_dtype(region.types[instruction.operands[0]].dtype)
        return _narrowing(conversion(source, compute_dtype(target)), target)
    if instruction.op == "next_after":
        return next_after(region.types[instruction.results[0]].dtype)
    if instruction.op == ROUND:
        return round_to_bfloat16
    if instruction.op == "reduce_precision":
        return reduce_precision(instruction.attributes["exponent_bits"], instruction.attributes["mantissa_bits"])
    return vector_function(instruction.op)


def _narrowing(convert: Function, target: np.dtype[Any]) -> Function:
    """A conversion to a type that is computed in a wider one rounds to what the narrow type can hold."""
    if compute_dtype(target) == target:
        return convert

    def run(x: Array, out: Array) -> None:
        convert(x, out)
        if target == BFLOAT16:
            round_to_bfloat16(out, out)
        else:
            np.copyto(out, out.astype(target), casting="unsafe")

    return run


def _wrapped(function: Function, target: np.dtype[Any]) -> Function:
    """Integers of fewer than 8 bits, which are computed in 8, wrap around like the others."""
    if not target.name.startswith(("int2", "uint2", "int4", "uint4")):
        return function
    shift = np.int8(8 - int(target.name[-1]))

    def run(*operands: Array) -> None:
        function(*operands)
        out = operands[-1]
        np.left_shift(out, shift, out=out, casting="unsafe")
        np.right_shift(out, shift, out=out, casting="unsafe")

    return run


def evaluate(region: Computation, arguments: list[Array], captured: dict[int, Array] | None = None) -> list[Array]:
    """Run an elementwise region (a reducer, a comparator) on whole arrays, which broadcast against each other."""
    values: dict[int, Array] = dict(captured or {})
    values.update(zip(region.parameters, arguments, strict=True))
    for instruction in region.instructions:
        target = region.types[instruction.results[0]].dtype
        if instruction.op == "constant":
            values[instruction.results[0]] = instruction.attributes["value"]
            continue
        operands = [values[value] for value in instruction.operands]
        operands = [array.astype(compute_dtype(array.dtype), copy=False) for array in operands]
        if instruction.op in {"reshape", "broadcast_in_dim"}:
            values[instruction.results[0]] = operands[0]
            continue
        out = np.empty(np.broadcast_shapes(*(array.shape for array in operands)), compute_dtype(target))
        _wrapped(_function(instruction, region), target)(*operands, out)
        values[instruction.results[0]] = out.astype(target, copy=False)
    return [values[value] for value in region.returns]


KERNELS = {"fusion": Kernel(build)}
