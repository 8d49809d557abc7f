"""Layouts that a script asks for, and donations that are of use."""

from __future__ import annotations


def test_arrays_have_the_layouts_that_were_asked_for(run) -> None:
    run("""
        import jax, numpy as np
        from jax.experimental.layout import Format, Layout
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        sharding = NamedSharding(Mesh(np.array(jax.devices()), "d"), P("d"))
        columns = Format(Layout((1, 0)), sharding)
        data = np.arange(128.0, dtype=np.float32).reshape(16, 8)
        x = jax.device_put(data, columns)
        y = jax.jit(lambda x: x + 1, out_shardings=columns)(x)
        for array, value in ((x, data), (y, data + 1), (y + 0, data + 1)):
            np.testing.assert_array_equal(array, value)
        assert x.format.layout.major_to_minor == y.format.layout.major_to_minor == (1, 0)
        assert (y + 0).format.layout.major_to_minor == (0, 1)
        auto = Format(Layout.AUTO)
        turned = jax.jit(lambda x: (x.T * 2, x), out_shardings=auto).lower(np.zeros((4, 6))).compile()
        assert [each.layout.major_to_minor for each in turned.output_formats] == [(1, 0), (0, 1)]
    """)


def test_a_donated_array_that_no_result_can_use_stays_alive(run) -> None:
    run("""
        import warnings, jax, numpy as np
        x = jax.device_put(np.ones((8, 200), np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.jit(lambda x: x @ x.T, donate_argnums=0)(x)
            assert not x.is_deleted()
            jax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted()
    """)
