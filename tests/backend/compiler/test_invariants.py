"""Loops carry what changes, and compute outside what doesn't."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backend.compiler.rounding import ROUND
from tests.backend.conftest import Chips, assert_same

RANDOM = np.random.RandomState(0)
W = RANDOM.randn(8, 8).astype(np.float32)
X = RANDOM.randn(5, 4, 8).astype(np.float32)


def chain(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda h, row: (jnp.tanh(row + h @ w.T), h), x[0], x)


def test_a_loop_captures_what_it_only_carries(chips: Chips) -> None:
    body = chips.compile(chain, W, X).body
    [loop] = [i for i in body.instructions if i.op == "while"]
    shapes = [body.types[value].shape for value in loop.operands]
    assert sorted(shapes) == [(), (4, 8), (5, 4, 8)]


def test_what_a_loop_captures_is_rounded_once_before_it(chips: Chips) -> None:
    body = chips.compile(chain, W, X).body
    [loop] = [i for i in body.instructions if i.op == "while"]
    inside = [loop.regions[1].types[i.results[0]].shape for i in loop.regions[1].instructions if i.op == ROUND]
    before = [body.types[i.results[0]].shape for i in body.instructions if i.op == ROUND]
    assert (8, 8) in before
    assert (8, 8) not in inside


def test_loops_give_what_they_gave(chips: Chips) -> None:
    def nested(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            total, same = carry
            inner = lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h + same * i), row)
            return (total + inner, same), inner

        (total, same), rows = lax.scan(step, (x[0], w[:4] * 2), x)
        return total, same, rows

    for ours, expected in zip(chips(nested, W, X), jax.jit(nested)(W, X), strict=True):
        assert_same(expected, ours)
