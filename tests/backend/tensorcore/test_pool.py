"""Memory comes back by size, the least recently used goes first, and giving never waits."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from backend.tensorcore.pool import Pool

U1 = np.dtype("uint8")
SIZE = 1 << 16


def is_kept(pool: Pool, array: np.ndarray[Any, Any]) -> bool:
    """Whether the pool hands out the memory of ``array``; it no longer has it then."""
    return np.shares_memory(pool.take(array.shape, array.dtype), array)


def used_to(pool: Pool, *sizes: int) -> Pool:
    """The pool, after buffers of these sizes were asked for again."""
    for size in sizes:
        pool.give(np.empty(size, U1))
        pool.take((size,), U1)
    return pool


def test_memory_that_was_given_is_taken_again() -> None:
    pool, array = used_to(Pool(), 4 * SIZE), np.empty((256, 256), "float32")
    pool.give(array)
    assert pool.take((1024, 64), np.dtype("int32")).ctypes.data == array.ctypes.data


def test_memory_of_a_size_that_comes_once_goes_back_to_the_system() -> None:
    pool, first, second = Pool(), np.empty(SIZE, U1), np.empty(SIZE, U1)
    pool.give(first)
    assert not is_kept(pool, first)
    pool.give(second)
    assert is_kept(pool, second)


def test_sizes_that_nobody_asks_for_make_room_for_those_in_use() -> None:
    pool, stale, asked = used_to(Pool(4 * SIZE), SIZE, 2 * SIZE, 3 * SIZE), np.empty(2 * SIZE, U1), np.empty(SIZE, U1)
    pool.give(asked)
    pool.give(stale)
    pool.give(pool.take((SIZE,), U1))
    new = np.empty(3 * SIZE, U1)
    pool.give(new)
    assert not is_kept(pool, stale)
    assert is_kept(pool, asked)
    assert is_kept(pool, new)


def test_what_is_larger_than_the_limit_drives_nothing_out() -> None:
    pool, small, large = used_to(Pool(4 * SIZE), SIZE, 5 * SIZE), np.empty(SIZE, U1), np.empty(5 * SIZE, U1)
    pool.give(small)
    pool.give(large)
    assert not is_kept(pool, large)
    assert is_kept(pool, small)


def test_a_destructor_that_gives_may_run_while_the_same_thread_takes() -> None:
    class Garbage:
        def __del__(self) -> None:
            pool.give(np.empty(SIZE, U1))

    class CollectingPool(Pool):
        def _pop(self, nbytes: int) -> np.ndarray[Any, Any]:
            gc.collect()
            return super()._pop(nbytes)

    pool = used_to(CollectingPool(), SIZE)
    pool.give(np.empty(SIZE, U1))
    garbage = Garbage()
    garbage.itself = garbage  # type: ignore[attr-defined]
    del garbage
    pool.take((SIZE,), U1)
    assert len(pool.take((SIZE,), U1)) == SIZE
