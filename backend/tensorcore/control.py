"""How do loops and branches run? All cores together; where cores disagree, the losers' values are kept by mask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Block, Environment, Kernel, Site, Slot, Step


def build_while(site: Site) -> Step:
    """``while``: carried values live in the results' places; a value that the body updates there isn't copied."""
    results = site.instruction.results
    carried = [Slot(site.slots[value].array, static=True) for value in results]
    condition = site.region(0, carried)
    body = site.region(1, carried, may_overwrite=True)
    initial = site.instruction.operands
    decided = condition.returns[0]
    per_core = not site.instruction.regions[0].uniform[decided]
    moves = _moves(site, body, carried)

    def start(env: Environment) -> None:
        for slot, value in zip(carried, initial, strict=True):
            np.copyto(slot.array, env[value])
        condition.capture(env)
        body.capture(env)

    def step(env: Environment) -> None:
        start(env)
        active = site.context.active
        while True:
            condition.run()
            going = condition.environment[decided]
            if per_core and active is not None:
                going = going & active
            if not going.any():
                return
            if not per_core or going.all():
                body.run()
                moves(body.environment)
                continue
            going = going.copy()
            kept = [slot.array.copy() for slot in carried]
            with _only(site, going):
                body.run()
            moves(body.environment)
            for slot, old in zip(carried, kept, strict=True):
                np.copyto(slot.array, old, where=_mask(~going, slot.array.ndim))

    return step


@contextlib.contextmanager
def _only(site: Site, cores: Array) -> Iterator[None]:
    """Some cores alone are in what runs now; the others go through it idly, and must not keep a loop going."""
    before = site.context.active
    site.context.active = cores if before is None else cores & before
    try:
        yield
    finally:
        site.context.active = before


def _mask(flags: Array, ndim: int) -> Array:
    return flags.reshape(-1, *([1] * (ndim - 1)))


def _moves(site: Site, body: Block, carried: list[Slot]) -> Any:
    """Copies the body's results into the carried places, by way of scratch where one would overwrite another."""
    pending = []
    for slot, value in zip(carried, body.returns, strict=True):
        source = body.slots[value]
        if source.static and source.array is slot.array:
            continue
        clashes = not source.static or any(np.may_share_memory(source.array, other.array) for other in carried)
        pending.append((value, slot.array, site.scratch(slot.array.shape, slot.array.dtype) if clashes else None))

    def move(env: Environment) -> None:
        for value, _, spare in pending:
            if spare is not None:
                np.copyto(spare, env[value])
        for value, target, spare in pending:
            np.copyto(target, env[value] if spare is None else spare)

    return move


def build_case(site: Site) -> Step:
    """``case``: an index out of range takes the last branch."""
    index = site.instruction.operands[0]
    last = len(site.instruction.regions) - 1
    return _branches(site, lambda env: np.where((env[index] < 0) | (env[index] > last), last, env[index]))


def build_if(site: Site) -> Step:
    """``if``: region 0 where the predicate holds, region 1 where not."""
    predicate = site.instruction.operands[0]
    return _branches(site, lambda env: np.where(env[predicate], 0, 1))


def _branches(site: Site, choose: Any) -> Step:
    blocks = [site.region(number, []) for number in range(len(site.instruction.regions))]
    results = site.instruction.results

    def run(env: Environment, number: int) -> Block:
        blocks[number].capture(env)
        blocks[number].run()
        return blocks[number]

    def step(env: Environment) -> None:
        chosen = choose(env)
        active = site.context.active
        numbers = np.unique(chosen if active is None or not chosen.ndim else chosen[active])
        if numbers.size == 1:
            block = run(env, int(numbers[0]))
            for value, inner in zip(results, block.returns, strict=True):
                np.copyto(env[value], block.environment[inner])
            return
        for number in numbers:
            with _only(site, chosen == number):
                block = run(env, int(number))
            for value, inner in zip(results, block.returns, strict=True):
                np.copyto(env[value], block.environment[inner], where=_mask(chosen == number, env[value].ndim))

    return step


KERNELS = {"while": Kernel(build_while), "case": Kernel(build_case), "if": Kernel(build_if)}
