"""A JAX function, compiled by our compiler and run by our engine in this process, beside JAX's own CPU backend."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax._src.compiler import get_compile_options

from backend.compiler import Program, compile_module
from backend.compiler.partition import PARTITIONER
from backend.hardware import generation
from backend.ici import collectives
from backend.tensorcore.engine import KERNELS, Engine, Loaded, Value

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)


class Chips:
    """An engine with what it takes to run JAX functions on it."""

    def __init__(self, threads: int | None = None) -> None:
        self.engine = Engine({**KERNELS, **collectives.KERNELS}, threads)

    def compile(self, function: Callable[..., Any], *arguments: Any, cores: int = 1, **jit: Any) -> Program:
        traced = jax.jit(function, **jit).trace(*arguments)
        module = traced.lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")
        code = io.BytesIO()
        module.operation.write_bytecode(code)
        options = get_compile_options(1, cores, device_assignment=np.arange(cores).reshape(1, cores))
        return compile_module(code.getvalue(), options.SerializeAsString(), generation("v3"))

    def load(self, function: Callable[..., Any], *arguments: Any, cores: int = 1) -> Loaded:
        return self.engine.load(self.compile(function, *arguments, cores=cores))

    def run(self, function: Callable[..., Any], *arguments: Any, cores: int = 1) -> list[Value]:
        """Results as they are in the engine: uniform or with a core axis."""
        return self.load(function, *arguments, cores=cores).run(values(arguments)).results

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[np.ndarray[Any, Any]]:
        """Results on one core."""
        return [value.array for value in self.run(function, *arguments)]


def values(arguments: Any) -> list[Value]:
    """The engine's form of JAX and numpy arrays: a sharded array has a core axis, a replicated one hasn't."""
    result = []
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, jax.Array) and len(leaf.devices()) > 1 and not leaf.sharding.is_fully_replicated:
            result.append(Value(per_core(leaf), False))
        else:
            result.append(Value(np.array(leaf, order="C"), True))
    return result


def per_core(array: jax.Array) -> np.ndarray[Any, Any]:
    """The parts of a sharded array, stacked in the order of the devices."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
    return np.stack([np.asarray(shard.data) for shard in shards])


@pytest.fixture(scope="session")
def chips() -> Chips:
    return Chips()


@pytest.fixture(scope="session", autouse=True)
def _partitioner() -> Iterator[None]:
    yield
    PARTITIONER.close()


def assert_same(expected: Any, actual: np.ndarray[Any, Any], tolerance: float = 2e-5) -> None:
    """Same shape and dtype, and values within ``tolerance``, relative to the largest finite one."""
    expected = np.asarray(expected)
    assert expected.shape == actual.shape
    assert expected.dtype == actual.dtype
    if expected.dtype.itemsize == 2:
        tolerance = 2e-2
    wide = np.result_type(expected.dtype if expected.dtype.kind in "fciub" else np.float32, np.float64)
    left, right = expected.astype(wide), actual.astype(wide)
    finite = np.abs(left[np.isfinite(left)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance * scale)
