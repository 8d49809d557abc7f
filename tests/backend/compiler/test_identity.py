"""Which modules are the same program to the processes of a job."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.compiler import get_compile_options
from jax.sharding import NamedSharding, PartitionSpec

from backend.compiler.identity import identify
from backend.compiler.program import Identity


def _module(function: Callable[..., Any], *arguments: Any) -> Any:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")


def _options(devices: tuple[int, ...]) -> bytes:
    assignment = np.array(devices).reshape(1, len(devices))
    serialized: bytes = get_compile_options(1, len(devices), device_assignment=assignment).SerializeAsString()
    return serialized


def _identity(function: Callable[..., Any], *arguments: Any, devices: tuple[int, ...] = (0,)) -> Identity:
    code = io.BytesIO()
    _module(function, *arguments).operation.write_bytecode(code)
    return identify(code.getvalue(), _options(devices))


def _f(x: Any) -> Any:
    return jnp.sin(x) + 1


def _same_elsewhere(x: Any) -> Any:
    return jnp.sin(x) + 1


_same_elsewhere.__name__ = "_f"
ONES = jnp.ones((4, 4))


def test_lines_do_not_matter_but_what_is_computed_does() -> None:
    assert _identity(_f, ONES) == _identity(_same_elsewhere, ONES)
    assert _identity(_f, ONES) != _identity(_f, jnp.ones((4, 5)))
    assert _identity(_f, ONES) != _identity(lambda x: jnp.sin(x) + 2, ONES)


def test_a_program_of_one_core_is_the_same_on_every_core() -> None:
    here, there = _identity(_f, ONES, devices=(0,)), _identity(_f, ONES, devices=(5,))
    assert here.signature == there.signature
    assert (here.device_ids, there.device_ids) == ([0], [5])


def test_a_program_of_several_cores_is_another_one_on_others() -> None:
    assert _identity(_f, ONES, devices=(0, 1)).signature != _identity(_f, ONES, devices=(1, 0)).signature


def test_where_a_sharding_is_told_to_does_not_matter() -> None:
    sharding = NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x"))

    def inspecting(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x, callback=lambda sharding: None)
        return x

    text = str(_module(inspecting, jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=sharding)))
    elsewhere = re.sub(r'(@InspectSharding.*backend_config = )"[^"]*"', r'\1"another address"', text)
    assert elsewhere != text
    options = _options(tuple(range(8)))
    assert identify(text.encode(), options) == identify(elsewhere.encode(), options)
