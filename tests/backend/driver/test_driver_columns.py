"""Arrays on many cores: their buffers die one by one or together, fail together, and leave nothing behind."""

from __future__ import annotations

import textwrap

SHARDED = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    devices = jax.devices()
    rows = NamedSharding(Mesh(np.array(devices), "d"), P("d"))
    in_use = lambda: [device.memory_stats()["bytes_in_use"] for device in devices]
    make = jax.jit(lambda: jnp.ones((64, 128)), out_shardings=rows)
    jax.block_until_ready(make())
"""


def test_a_shard_that_is_deleted_alone_frees_its_core_and_ends_the_array(run) -> None:
    run(f"""
    {SHARDED}
    before = in_use()
    x = make()
    each = in_use()[0] - before[0]
    assert each > 0
    x.addressable_shards[3].data.delete()
    assert [now - then for now, then in zip(in_use(), before)] == [each] * 3 + [0] + [each] * 4
    try:
        jax.jit(lambda x: x + 1)(x)
    except (RuntimeError, ValueError) as error:
        assert "deleted" in str(error)
    else:
        raise AssertionError("a deleted shard was used")
    del x
    assert in_use() == before
    """)


def test_launches_leave_nothing_behind(run) -> None:
    run(f"""
    {SHARDED}
    from backend.driver import handles
    step = jax.jit(lambda x: (x + 1, x.sum()), donate_argnums=0)
    x, total = step(make())
    def count(steps):
        global x, total
        for _ in range(steps):
            x, total = step(x)
        total.block_until_ready()
        in_use()
        return len(handles._objects)
    few = count(20)
    assert count(200) <= few + 10, "handles are left over"
    assert float(x[0, 0]) == 222
    """)


def test_all_who_wait_for_a_launch_hear_of_its_failure(start, runtime) -> None:
    code = textwrap.dedent(f"""
    {SHARDED}
    def refuse(value):
        raise ValueError("refused")
    broken = jax.jit(lambda x: x + jax.pure_callback(refuse, jax.ShapeDtypeStruct((), np.float32), 1.0))
    x = make()
    results = [broken(x) for _ in range(2)]
    for result in (*results, results[0] + 1):
        for shard in result.addressable_shards[::3]:
            try:
                np.asarray(shard.data)
            except RuntimeError as error:
                assert "refused" in str(error)
            else:
                raise AssertionError("a failed launch gave a value")
    assert float((x + 1).sum()) == 2 * 64 * 128
    print("all heard")
    """)
    status, out, err = start(code, JAX_PLATFORMS="tpu,cpu", **runtime.environment()).result()
    assert (status, out) == (0, "all heard\n"), err
