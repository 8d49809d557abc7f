"""Loading and launching: memory that programs share, arguments and results that they don't."""

from __future__ import annotations

import threading
import weakref

import jax.numpy as jnp
import numpy as np

from backend.tensorcore.arena import Layout
from backend.tensorcore.value import Value
from tests.backend.conftest import Chips, values


def test_loading_a_program_touches_no_memory_of_one_that_runs(chips: Chips) -> None:
    """Constants are computed when a program is loaded; another may be running in the shared arena meanwhile."""
    everything = chips.engine.arena.array(0, (1 << 20,), np.dtype(np.uint8))
    everything.fill(7)
    chips.load(
        lambda x: x + jnp.tanh(jnp.sin(jnp.arange(100_000.0)) * 2).reshape(100, 1000).sum(1), np.zeros(100, np.float32)
    )
    assert (everything == 7).all()


def test_a_program_gives_the_same_while_others_are_loaded(chips: Chips) -> None:
    x = np.random.RandomState(0).randn(300, 300).astype(np.float32)
    loaded = chips.load(lambda x: jnp.tanh(x @ x).sum(0), x)
    expected = loaded.run(values([x])).results[0].array.tobytes()
    stop = threading.Event()

    def load_others() -> None:
        size = 1000
        while not stop.is_set():
            size += 1
            chips.load(
                lambda y, size=size: y + jnp.cos(jnp.sin(jnp.arange(size * 1.0)) * 2), np.zeros(size, np.float32)
            )

    loader = threading.Thread(target=load_others)
    loader.start()
    try:
        results = {loaded.run(values([x])).results[0].array.tobytes() for _ in range(100)}
    finally:
        stop.set()
        loader.join()
    assert results == {expected}


def test_temporaries_are_placed_without_overlap_and_their_room_is_used_again() -> None:
    layout = Layout()
    first, second, third = (layout.allocate(1000) for _ in range(3))
    assert len({first, second, third}) == 3
    layout.release(second)
    assert layout.allocate(900) == second
    layout.release(first)
    layout.release(second)
    assert layout.allocate(2000) == first
    assert layout.peak_bytes == 3 * 1024


def test_a_program_keeps_nothing_of_a_run_alive(chips: Chips) -> None:
    x = np.ones((100, 200), np.float32)
    loaded = chips.load(lambda x: (x.T.reshape(-1) + 1, x[::2].T), x)
    alive = weakref.ref(x)
    loaded.run([Value(x, uniform=True)])
    del x
    assert alive() is None
