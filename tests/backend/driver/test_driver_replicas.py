"""Data that JAX sends to several devices is sent once, and never taken for other data."""

from __future__ import annotations


def test_a_replicated_array_has_its_data_on_every_core(run) -> None:
    run("""
        import jax, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        devices = np.array(jax.devices())
        flat, square = Mesh(devices, "d"), Mesh(devices.reshape(4, 2), ("d", "m"))
        array = np.arange(64, dtype=np.float32).reshape(8, 8)
        for change in range(2):
            array[change, 0] = -change
            for data in (array, array.T, array[:, ::2], array.astype(np.int64)):
                for sharding in (NamedSharding(flat, P()), NamedSharding(flat, P("d")), NamedSharding(square, P("m"))):
                    for shard in jax.device_put(data, sharding).addressable_shards:
                        np.testing.assert_array_equal(shard.data, data[shard.index])
        x = jax.device_put(array, NamedSharding(flat, P()))
        assert all(device.memory_stats()["bytes_in_use"] > 0 for device in devices)
        np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(x), array + 1)
        np.testing.assert_array_equal(jax.jit(lambda x: x * 2)(x), array * 2)
    """)


def test_one_array_that_changes_between_devices_is_sent_anew(run) -> None:
    run("""
        import jax, numpy as np
        array, there = np.zeros((128, 8), np.float32), []
        for device in jax.devices():
            array[5, 5] = device.id
            there.append(jax.device_put(array, device))
        assert [float(one[5, 5]) for one in there] == list(range(8))
    """)
