"""Programs that outlive their process: saved executables, the compilation cache, exported functions."""

from __future__ import annotations

import pytest

from backend.driver.saved import restore, save
from backend.errors import FailedPrecondition, InvalidArgument
from backend.link.messages import VERSION, Welcome

PROGRAM = """
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import NamedSharding, PartitionSpec as P
        mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        cut, same = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
        step = jax.jit(lambda w, x: (w + x.T @ x @ w, (x @ w).sum()), in_shardings=(same, cut), donate_argnums=0)
        w, x = jax.device_put(np.eye(4, dtype="float32"), same), jax.device_put(np.ones((8, 4), "float32"), cut)
"""


def slice_of(kind: str) -> Welcome:
    return Welcome(VERSION, "lab", kind, f"TPU {kind[:2]}", 1 << 30, [])


def test_an_executable_is_restored_on_the_same_kind_of_slice_only() -> None:
    data = save("jit_step", b"module", b"options", "print", slice_of("v3-8"))
    assert restore(data, slice_of("v3-8")).module == b"module"
    with pytest.raises(FailedPrecondition, match="jit_step was compiled for a v3-8 slice, but this slice is a v2-8"):
        restore(data, slice_of("v2-8"))
    for junk in (b"", b"junk", data[:-3], data + b"x"):
        with pytest.raises(InvalidArgument, match="compile the program again"):
            restore(junk, slice_of("v3-8"))


def test_a_saved_executable_does_what_it_did(run) -> None:
    run(
        PROGRAM
        + """
        from jax.experimental import serialize_executable
        compiled = step.lower(w, x).compile()
        saved, *trees = serialize_executable.serialize(compiled)
        loaded = serialize_executable.deserialize_and_load(saved, *trees, execution_devices=list(mesh.devices.flat))
        new, total = loaded(w, x)
        assert w.is_deleted() and total == 32
        np.testing.assert_array_equal(new, np.eye(4) + 8)
        assert loaded.memory_analysis().alias_size_in_bytes == compiled.memory_analysis().alias_size_in_bytes > 0
        assert "num_partitions=8" in loaded.as_text()
        """
    )


def test_the_second_process_finds_the_first_ones_programs_in_the_compilation_cache(run, tmp_path) -> None:
    code = (
        f"""
        import collections, jax
        from jax._src import monitoring
        jax.config.update("jax_compilation_cache_dir", "{tmp_path}")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        seen = collections.Counter()
        monitoring.register_event_listener(lambda event, **_: seen.update([event]))
        """
        + PROGRAM
        + """
        assert step(w, x)[1] == 32
        print(seen["/jax/compilation_cache/cache_hits"], seen["/jax/compilation_cache/cache_misses"])
        """
    )
    hits, misses = map(int, run(code).split())
    assert hits == 0
    assert misses > 0
    assert run(code).split() == [str(misses), "0"]


def test_an_exported_function_runs(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        from jax import export
        exported = export.export(jax.jit(lambda x: jnp.sum(x * 2)), platforms=["cpu", "tpu"])(jnp.ones(3))
        assert exported.call(jnp.arange(3.0)) == 6
        try:
            import flatbuffers
        except ImportError:
            raise SystemExit
        assert export.deserialize(exported.serialize()).call(jnp.arange(3.0)) == 6
    """)


def test_profiles_and_live_arrays_do_not_disturb(run, tmp_path) -> None:
    run(f"""
        import jax, jax.numpy as jnp
        with jax.profiler.trace("{tmp_path}"), jax.profiler.StepTraceAnnotation("step", step_num=1):
            x = jax.block_until_ready(jnp.ones(3) + 1)
        assert any(array is x for array in jax.live_arrays())
        assert len(jax.profiler.device_memory_profile()) > 0
    """)
