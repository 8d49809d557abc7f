"""How are random bits made? ``rng_bit_generator``: counter-based generators, the bits that XLA makes on a host.

Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds) are those of Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", SC 2011. The state is 64-bit words: a key, then a counter that goes up by one for each block of output.
``rng``, which has no state, counts its own blocks from the time its program is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step
from backend.tensorcore.vector import compute_dtype

_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_CHUNK = 1 << 14
"""Blocks of output that are computed at a time."""


def threefry(counter: tuple[Array, Array], key: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two uint32 words of each counter. All are uint32 and broadcast against each other."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for distance in rotations[group % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance)))
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def philox(counter: tuple[Array, ...], key: tuple[Array, Array]) -> tuple[Array, ...]:
    """Four uint32 words of each counter of four. All are uint32 and broadcast against each other."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            (second >> _WORD).astype(np.uint32) ^ b ^ k,
            second.astype(np.uint32),
            (first >> _WORD).astype(np.uint32) ^ d ^ m,
            first.astype(np.uint32),
        )
        k, m = k + np.uint32(0x9E3779B9), m + np.uint32(0xBB67AE85)
    return a, b, c, d


def _words(values: Array) -> tuple[Array, Array]:
    """Low and high half of uint64 values."""
    return (values & _LOW).astype(np.uint32), (values >> _WORD).astype(np.uint32)


def _sum_with_carry(low: Array, high: Array, amount: Any) -> tuple[Array, Array]:
    """A 128-bit number, in two halves, plus a 64-bit one."""
    total = low + amount
    return total, high + (total < low)


def _high_half(state: Array) -> Array:
    """The upper 64 bits of Philox's counter; (cores,). A state of two words has none: XLA takes the key there."""
    high: Array = state[:, 2 if state.shape[1] > 2 else 0]
    return high


def _philox_words(state: Array, low: int, high: int) -> Array:
    """uint32 words of output blocks ``low`` to ``high``; (cores, blocks, 4). ``state``: (cores, words) of uint64."""
    numbers = np.arange(low, high, dtype=np.uint64)
    halves = _sum_with_carry(state[:, 1:2], _high_half(state)[:, np.newaxis], numbers)
    counter = (*_words(halves[0]), *_words(halves[1]))
    return np.stack(np.broadcast_arrays(*philox(counter, _words(state[:, :1]))), axis=-1)


def _philox_bits(state: Array, count: int, dtype: np.dtype[Any], run: Callable[..., None]) -> Array:
    """``count`` numbers for each state, in the order of the counter; (cores, count)."""
    wide = np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)
    blocks = _philox_blocks(count, dtype)
    words = np.empty((len(state), blocks, 4), np.uint32)

    def work(chunk: int, _: int) -> None:
        low, high = chunk * _CHUNK, min((chunk + 1) * _CHUNK, blocks)
        words[:, low:high] = _philox_words(state, low, high)

    run(-(-blocks // _CHUNK), work)
    return words.reshape(len(state), -1).view(wide)[:, :count]


def _philox_blocks(count: int, dtype: np.dtype[Any]) -> int:
    return -(-count // (2 if dtype.itemsize == 8 else 4))


def _philox_state(state: Array, count: int, dtype: np.dtype[Any]) -> Array:
    moved = state.copy()
    amount = np.uint64(_philox_blocks(count, dtype))
    sums = _sum_with_carry(state[:, 1], _high_half(state), amount)
    moved[:, 1:] = np.stack(sums, axis=1)[:, : state.shape[1] - 1]
    return moved


def _threefry_split(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The axis whose elements get the two words of a block in turn, and the shape of the counters."""
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    axis = even[0] if even else max(range(len(shape)), key=lambda a: shape[a])
    return axis, tuple(-(-size // 2) if a == axis else size for a, size in enumerate(shape))


def _threefry_bits(state: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Numbers of ``shape`` for each state, and how many counters they took."""
    flat = shape or (1,)
    axis, counted = (-1, flat) if dtype.itemsize == 8 else _threefry_split(flat)
    blocks = math.prod(counted)
    counter = _words(state[:, 1:2] + np.arange(blocks, dtype=np.uint64))
    x, y = (word.reshape(len(state), *counted) for word in threefry(counter, _words(state[:, :1])))
    if axis < 0:
        return (x.astype(np.uint64) | (y.astype(np.uint64) << _WORD)).reshape(len(state), *shape), blocks
    pairs = np.stack([x, y], axis=axis + 2)
    rounded = tuple(2 * size if a == axis else size for a, size in enumerate(counted))
    whole = pairs.reshape(len(state), *rounded)
    return whole[(slice(None), *(slice(size) for size in flat))].reshape(len(state), *shape), blocks


def build_bits(site: Site) -> Step:
    """``rng_bit_generator``: the moved state, and bits. The default algorithm is Philox."""
    read = site.reader(0)
    new_state, out = site.instruction.results
    shape, dtype = site.result_type(1).shape, site.result_type(1).dtype
    count = math.prod(shape)
    by_threefry = site.attributes["algorithm"] == "THREE_FRY"

    def step(env: Environment) -> None:
        given = read(env)
        state = given.reshape(-1, given.shape[-1])
        if by_threefry:
            bits, blocks = _threefry_bits(state, shape, dtype)
            moved = state.copy()
            moved[:, 1] += np.uint64(blocks)
        else:
            bits = _philox_bits(state, count, dtype, site.workers.run)
            moved = _philox_state(state, count, dtype)
        np.copyto(env[new_state], moved.reshape(given.shape))
        np.copyto(env[out], bits.reshape(env[out].shape), casting="unsafe")

    return step


def build_uniform(site: Site) -> Step:
    """``rng``, between two scalars: below the upper one."""
    low, high = site.reader(0), site.reader(1)
    target = site.instruction.results[0]
    dtype = site.result_type().dtype
    inside = compute_dtype(dtype)
    count = math.prod(site.result_type().shape)
    cores = site.num_cores if site.lead else 1
    state = np.zeros((cores, 3), np.uint64)
    state[:, 0] = np.arange(cores)

    def step(env: Environment) -> None:
        bits = _philox_bits(state, count, np.dtype(np.uint64), site.workers.run)
        state[...] = _philox_state(state, count, np.dtype(np.uint64))
        start, end = (read(env).reshape(-1, 1)[:cores] for read in (low, high))
        if dtype.kind in "iu":
            span = (end.astype(np.int64) - start.astype(np.int64)).astype(np.uint64)
            drawn = start + (bits % np.maximum(span, np.uint64(1))).astype(dtype)
        else:
            first, last = start.astype(inside), end.astype(inside)
            unit = (bits >> np.uint64(11)) * 2.0**-53
            drawn = (first + unit * (last - first)).astype(inside)
            drawn = np.minimum(drawn, np.nextafter(last, first))
        np.copyto(env[target], drawn.reshape(env[target].shape), casting="unsafe")

    return step


KERNELS = {"rng_bit_generator": Kernel(build_bits), "rng": Kernel(build_uniform)}
