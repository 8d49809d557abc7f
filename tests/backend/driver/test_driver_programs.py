"""Unmodified JAX code on a slice: what comes out is right, and says the right things about itself."""

from __future__ import annotations

import pytest


def test_devices_are_the_cores_of_the_slice(run) -> None:
    out = run("""
        import jax
        for device in jax.devices():
            print(device.id, device.platform, device.device_kind, device.coords, device.core_on_chip)
        print(jax.default_backend(), jax.process_count(), jax.devices()[0].client.platform_version)
    """).splitlines()
    assert out[0] == "0 tpu TPU v3 [0, 0, 0] 0"
    assert out[7] == "7 tpu TPU v3 [1, 1, 0] 1"
    assert out[8].startswith("tpu 1 ")
    assert "tpuctl" in "".join(out[8:])


@pytest.mark.parametrize("tcp", [False, True])
def test_data_comes_back_unchanged(run, tcp: bool) -> None:
    run(
        """
        import jax, numpy as np
        a = np.random.default_rng(0).standard_normal((1501, 1502)).astype("float32")
        for b in (a, a[::2, 1::3], a[::-1], np.asfortranarray(a), a[:0], a[0, 0], a.astype("bool"), a.astype("int8")):
            np.testing.assert_array_equal(np.asarray(jax.device_put(b)), b)
        """,
        tcp=tcp,
    )


def test_the_host_array_may_change_right_after_the_copy(run) -> None:
    run("""
        import jax, numpy as np
        for size in (3, 3_000_000):
            a = np.ones(size, "float32")
            x = jax.device_put(a)
            a[:] = 2
            assert (np.asarray(x) == 1).all()
    """)


def test_gradients_random_numbers_and_loops(run) -> None:
    run("""
        import jax, jax.numpy as jnp, numpy as np
        gradient = jax.jit(jax.grad(lambda w: jnp.sum(jnp.tanh(w) ** 2)))(jnp.zeros((8, 8)))
        assert gradient.shape == (8, 8) and not np.asarray(gradient).any()
        assert jax.random.normal(jax.random.key(0), (8,)).shape == (8,)
        assert jax.lax.scan(lambda c, _: (c + 1, c), jnp.ones(2), None, length=3)[0].tolist() == [4, 4]
    """)


def test_sharded_arrays_keep_their_sharding(run) -> None:
    run("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("x",))
        x = jax.device_put(jnp.arange(16.0), NamedSharding(mesh, P("x")))
        y = jax.jit(lambda x: x * 2)(x)
        assert y.sharding == x.sharding
        assert y.tolist() == [2 * i for i in range(16)]
        assert [shard.data.shape for shard in y.addressable_shards] == [(2,)] * 8
    """)


def test_arrays_stay_on_the_device_they_were_put_on(run) -> None:
    run("""
        import jax, numpy as np
        device, other = jax.devices()[5], jax.devices()[2]
        y = jax.jit(lambda a: a + 1)(jax.device_put(np.arange(4.0), device))
        assert y.devices() == {device}
        z = jax.device_put(y, other)
        assert z.devices() == {other} and z.tolist() == [1, 2, 3, 4]
    """)


def test_pinned_host_memory_is_there(run) -> None:
    run("""
        import jax, numpy as np
        place = jax.sharding.SingleDeviceSharding
        host, hbm = (place(jax.devices()[0], memory_kind=kind) for kind in ("pinned_host", "device"))
        x = jax.device_put(np.ones(4, "float32"), host)
        assert x.sharding.memory_kind == "pinned_host"
        assert (jax.device_put(x, hbm) + 1).tolist() == [2] * 4
    """)


def test_results_may_lie_in_host_memory_where_they_take_no_hbm(run) -> None:
    run("""
        import jax, jax.numpy as jnp, numpy as np
        mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        hbm = jax.NamedSharding(mesh, jax.P("x"))
        host = hbm.with_memory_kind("pinned_host")
        x = jax.device_put(jnp.ones((8, 1024, 1024)), hbm)
        before = jax.devices()[0].memory_stats()["bytes_in_use"]
        away, here = jax.jit(lambda x: (jax.device_put(x * 2, host), jax.device_put(x, host).sum()))(x)
        assert away.sharding == host and here == 8 << 20
        assert jax.devices()[0].memory_stats()["bytes_in_use"] < before + 4096
        back = jax.jit(lambda y: jax.device_put(y, hbm) + 1)(away)
        assert back.sharding == hbm and (np.asarray(back) == 3).all()
        place = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
        assert jax.jit(lambda x: x + 1, out_shardings=place)(jnp.ones(3)).sharding == place
    """)


def test_a_donated_array_is_deleted(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        x = jnp.ones((16, 16))
        y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted() and y[0, 0] == 2
        try:
            x + 1
        except RuntimeError as error:
            assert "deleted" in str(error)
    """)


def test_memory_stats_count_tiles_and_forget_what_was_deleted(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        device = jax.devices()[0]
        before = device.memory_stats()["bytes_in_use"]
        x = jnp.ones((1000, 1000))
        assert device.memory_stats()["bytes_in_use"] - before == 1000 * 1024 * 4
        del x
        after = device.memory_stats()
        assert after["bytes_in_use"] == before and after["peak_bytes_in_use"] >= before + 1000 * 1024 * 4
        assert 15 << 30 < after["bytes_limit"] < 16 << 30
    """)


def test_an_array_too_large_for_hbm_is_resource_exhausted_with_sizes(run) -> None:
    out = run("""
        import jax, jax.numpy as jnp
        try:
            jax.block_until_ready(jnp.zeros((5, 1 << 30)))
        except RuntimeError as error:
            print(error)
        assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]
    """)
    assert "RESOURCE_EXHAUSTED" in out
    assert "32.00G" in out


def test_cost_memory_and_text_of_a_compiled_program(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        compiled = jax.jit(lambda x: x @ x).lower(jnp.ones((128, 128))).compile()
        assert compiled.cost_analysis()["flops"] == 2 * 128 ** 3
        assert compiled.memory_analysis().argument_size_in_bytes == 128 * 128 * 4
        assert "HloModule" in compiled.as_text()
    """)
