"""From module to program: what is fused, what is uniform, what is refused."""

from __future__ import annotations

import os
import signal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from backend.compiler import compile_module
from backend.compiler.attributes import SUPPORTED
from backend.compiler.options import check_overrides
from backend.compiler.partition import PARTITIONER
from backend.errors import Internal, InvalidArgument, TpuError, Unimplemented
from backend.hardware import generation
from backend.ici import collectives
from backend.tensorcore.engine import KERNELS
from backend.tensorcore.vector import SPECIAL_OPS, VECTOR_OPS
from tests.backend.conftest import Chips


def sharded(array: Any, spec: P) -> jax.Array:
    return jax.device_put(array, NamedSharding(Mesh(np.array(jax.devices("cpu")[:8]), ("x",)), spec))


def operations(program: Any) -> list[str]:
    return [i.op for i in program.schedule.instructions]


def test_every_operation_that_is_taken_has_a_kernel() -> None:
    fused = {*VECTOR_OPS, *SPECIAL_OPS, "compare", "convert", "reduce_precision", "constant"}
    assert SUPPORTED - fused - set(KERNELS) - set(collectives.KERNELS) == set()


def test_a_chain_of_elementwise_operations_is_one_fusion(chips: Chips) -> None:
    program = chips.compile(lambda x, b: jnp.tanh(x * 2 + b) - x, np.zeros((8, 4), np.float32), np.zeros(4, np.float32))
    assert operations(program).count("fusion") == 1
    assert not {"add", "multiply", "tanh"} & set(operations(program))


def test_what_a_fusion_feeds_is_not_moved_before_it(chips: Chips) -> None:
    x = np.random.RandomState(0).randn(6, 6).astype(np.float32)

    def function(x: jax.Array) -> jax.Array:
        y = x + 1
        return (y * y.sum()) + jnp.sin(y)

    [actual] = chips(function, x)
    np.testing.assert_allclose(actual, function(x), rtol=1e-5)


def test_a_gradient_summed_over_cores_is_contracted_over_cores(chips: Chips) -> None:
    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.grad(lambda w: ((x @ w) ** 2).sum())(w)

    w, x = sharded(np.zeros((4, 3), np.float32), P()), sharded(np.zeros((16, 4), np.float32), P("x"))
    program = chips.compile(gradient, w, x, cores=8)
    assert "all_reduce" not in operations(program)
    assert any(i.attributes.get("over_cores") for i in program.schedule.instructions)


def test_the_same_value_is_computed_once(chips: Chips) -> None:
    program = chips.compile(lambda x: (x @ x) + (x @ x).T, np.zeros((4, 4), np.float32))
    assert operations(program).count("dot_general") == 1


def unknown_call(x: Any) -> Any:
    return jax.ffi.ffi_call("somebodys_kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize("cores", [1, 8])
def test_an_operation_that_is_not_there_is_named_with_its_line(cores: int, chips: Chips) -> None:
    x = sharded(np.zeros(8, np.float32), P("x")) if cores > 1 else np.zeros(8, np.float32)
    with pytest.raises(Unimplemented, match=r"custom call somebodys_kernel .* \(.*test_compile.py:\d+\)"):
        chips.compile(unknown_call, x, cores=cores)


@pytest.mark.parametrize("module", [b"", b"garbage", b"module @m { func.func @f() { return } }"])
def test_a_malformed_module_is_refused(module: bytes, chips: Chips) -> None:
    from jax._src.compiler import get_compile_options

    options = get_compile_options(1, 1).SerializeAsString()
    with pytest.raises(InvalidArgument):
        compile_module(module, options, generation("v3"))


def test_malformed_compile_options_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="compile options"):
        compile_module(b"", b"\x0a\xff", generation("v3"))


def _square(chips: Chips) -> Any:
    return chips.compile(lambda x: x * x, sharded(np.zeros(8, np.float32), P("x")), cores=8)


def test_a_killed_partitioner_is_replaced(chips: Chips) -> None:
    _square(chips)
    process = PARTITIONER._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert _square(chips).num_partitions == 8


def test_a_program_that_crashes_xlas_host_compiler_is_partitioned_all_the_same(chips: Chips) -> None:
    """Rolled random-number loops make XLA's CPU code generator abort when only the partitioner has run."""

    def numbers(key: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.wrap_key_data(key), (16, 8))

    program = chips.compile(numbers, sharded(np.array([0, 7], np.uint32), P()), cores=8)
    assert program.num_partitions == 8


def test_donated_parameters_are_named(chips: Chips) -> None:
    x = np.zeros((4, 4), np.float32)
    assert chips.compile(lambda x, y: (x + y, y), x, x, donate_argnums=0).donated == [0]


def test_simulated_time_grows_with_the_work(chips: Chips) -> None:
    small, large = np.zeros((512, 512), np.float32), np.zeros((4096, 4096), np.float32)
    few, many = (chips.compile(lambda a: a @ a, x).cost for x in (small, large))
    assert many.flops == 512 * few.flops
    assert many.device_seconds > 10 * few.device_seconds
    assert many.device_seconds > many.flops / generation("v3").bf16_flops_per_device


def test_a_loop_is_charged_for_each_trip(chips: Chips) -> None:
    x = np.zeros((512, 512), np.float32)

    def loop(trips: int) -> Any:
        return lambda x: jax.lax.fori_loop(0, trips, lambda _, y: y @ x, x)

    once, often = (chips.compile(loop(trips), x).cost for trips in (2, 200))
    assert often.flops > 50 * once.flops


def test_errors_carry_google_rpc_codes() -> None:
    assert {kind.__name__: kind.code for kind in TpuError.__subclasses__()} == {
        "InvalidArgument": 3,
        "NotFound": 5,
        "ResourceExhausted": 8,
        "FailedPrecondition": 9,
        "Unimplemented": 12,
        "Internal": 13,
        "Unavailable": 14,
        "Unauthenticated": 16,
    }
    assert isinstance(Internal("x"), Exception)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("invalid_key", "x"), "No such compile option: 'invalid_key'"),
        (("xla_embed_ir_in_executable", "x"), "is not a valid bool value"),
    ],
)
def test_compile_options_that_are_not_there_are_refused(option: tuple[str, str], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        check_overrides(options_with(option), PARTITIONER)


@pytest.mark.parametrize(
    "option", [("xla_embed_ir_in_executable", True), ("xla_tpu_scoped_vmem_limit_kib", "65536"), ("xla_tpu_any", "x")]
)
def test_options_of_xla_and_of_the_tpu_compiler_are_taken(option: tuple[str, Any], chips: Chips) -> None:
    check_overrides(options_with(option), PARTITIONER)


def options_with(option: tuple[str, Any]) -> Any:
    from jax._src.compiler import get_compile_options

    return get_compile_options(1, 1, env_options_overrides=dict([option]))
