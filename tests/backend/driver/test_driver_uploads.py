"""Each device gets the data that is meant for it."""

from __future__ import annotations


def test_columns_of_an_array_are_not_taken_for_replicas_of_the_first(run) -> None:
    out = run("""
        import jax, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
        full = np.random.default_rng(0).standard_normal((32, 64), np.float32)
        for spec in (P(None, "model"), P("data", "model"), P("data"), P()):
            sharding = NamedSharding(mesh, spec)
            array = jax.make_array_from_callback(full.shape, sharding, lambda part: full[part])
            print(all(np.array_equal(shard.data, full[shard.index]) for shard in array.addressable_shards))
    """)
    assert out.split() == ["True"] * 4
