"""Pallas kernels written for a TPU run without a change."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_kernels_with_a_grid_scratch_memory_and_dmas(run) -> None:
    run("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        def matmul(x, y, out, total):
            @pl.when(pl.program_id(1) == 0)
            def _():
                total[...] = jnp.zeros_like(total)
            total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)
            out[...] = total[...]

        x = jnp.arange(256.0 * 256).reshape(256, 256) % 7
        y = pl.pallas_call(
            matmul, grid=(2, 2), out_shape=jax.ShapeDtypeStruct((256, 256), "float32"),
            in_specs=[pl.BlockSpec((128, 128), lambda i, k: (i, k)), pl.BlockSpec((128, 256), lambda i, k: (k, 0))],
            out_specs=pl.BlockSpec((128, 256), lambda i, k: (i, 0)), scratch_shapes=[pltpu.VMEM((128, 256), "float32")],
        )(x, x)
        np.testing.assert_allclose(y, np.asarray(x) @ np.asarray(x))

        def shift(x, out, sent, received):
            right = (jax.lax.axis_index("x") + 1) % 8
            copy = pltpu.make_async_remote_copy(x, out, sent, received, device_id=(right,))
            copy.start()
            copy.wait()

        mesh = jax.make_mesh((8,), ("x",))
        place = jax.NamedSharding(mesh, jax.P("x"))
        call = pl.pallas_call(
            shift, out_shape=jax.ShapeDtypeStruct((8, 128), "float32"),
            in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)], out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )
        shard = jax.shard_map(call, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=False)
        parts = np.repeat(np.arange(8, dtype="float32"), 8)[:, None] + np.zeros((64, 128), "float32")
        np.testing.assert_array_equal(jax.jit(shard)(jax.device_put(parts, place)), np.roll(parts, 8, 0))
    """)
