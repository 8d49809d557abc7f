"""Programs that call back into the script: right values, right order, and nothing left behind when they fail."""

from __future__ import annotations

import signal
import time

from backend.link.client import status

SETUP = """
        import threading
        import jax, jax.numpy as jnp, numpy as np
        from jax.experimental import io_callback
        from jax.sharding import NamedSharding, PartitionSpec as P
        like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
        seen = []
        def note(*values):
            seen.append([np.asarray(value).tolist() for value in values])
        mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))
"""


def test_values_reach_callbacks_and_their_answers_come_back(run) -> None:
    out = run(
        SETUP
        + """
        @jax.jit
        def f(x):
            jax.debug.print("x = {}", x)
            kinds = like(x), jax.ShapeDtypeStruct((), "int32")
            y, n = jax.pure_callback(lambda a: (a * 2, np.int32(a.size)), kinds, x)
            return y + n
        assert f(jnp.arange(3.0)).tolist() == [3, 5, 7]

        @jax.jit
        def loop(x):
            def body(c, t):
                io_callback(note, None, t, c.sum(), ordered=True)
                return jax.lax.cond(t > 0, lambda: jax.pure_callback(lambda a: a + 1, like(c), c), lambda: c), t
            return jax.lax.scan(body, x, jnp.arange(3))[0]
        assert loop(jnp.zeros(2)).tolist() == [2, 2]
        jax.effects_barrier()
        assert seen == [[0, 0.0], [1, 0.0], [2, 2.0]], seen

        @jax.custom_jvp
        def sine(x):
            return jax.pure_callback(np.sin, like(x), x, vmap_method="expand_dims")
        sine.defjvp(lambda p, t: (sine(*p), jnp.cos(*p) * t[0]))
        np.testing.assert_allclose(jax.vmap(jax.grad(sine))(jnp.arange(4.0)), np.cos(np.arange(4)), rtol=1e-5)

        large = jnp.ones((1500, 1500))  # more than one message each way
        assert jax.jit(lambda a: jax.pure_callback(lambda a: a + 1, like(a), a))(large)[-1, -1] == 2
        """
    )
    assert out.splitlines() == ["x = [0. 1. 2.]"]


def test_on_many_cores_a_callback_sees_the_whole_array_or_in_shard_map_each_cores_part(run) -> None:
    run(
        SETUP
        + """
        def f(x):
            jax.debug.callback(note, x)
            return jax.pure_callback(lambda a: a[::-1] + 1, like(x), x)
        assert jax.jit(f)(x).tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
        jax.effects_barrier()
        assert seen == [[list(range(8))]], seen

        seen.clear()
        def part(x):
            odd = jax.lax.axis_index("x") % 2 == 1
            even = jax.lax.cond(odd, lambda: x, lambda: jax.pure_callback(lambda a: a * 10, like(x), x))
            return jax.lax.while_loop(lambda v: v[0] < 3, lambda v: io_callback(more, like(v), v), even)
        def more(a):
            note(a)
            return a + 1
        shard = lambda f: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        assert shard(part)(x).tolist() == [3, 3, 20, 3, 40, 5, 60, 7]
        assert sorted(seen) == [[[0]], [[1]], [[1]], [[2]], [[2]]], seen

        meet = threading.Barrier(8)
        def wait(a):
            meet.wait(20)
            return a
        assert shard(lambda x: jax.pure_callback(wait, like(x), x))(x).tolist() == list(range(8))
        """
    )


def test_a_script_can_inspect_shardings(run) -> None:
    run(
        SETUP
        + """
        def f(x, callback):
            jax.debug.inspect_array_sharding(x * 2, callback=callback)
            return x.sum()
        assert jax.jit(lambda x: f(x, seen.append))(x) == 28
        assert [sharding.spec for sharding in seen] == [P("x")], seen
        def fail(sharding):
            raise ValueError("not as it should be")
        try:
            jax.jit(lambda x: f(x, fail))(x)
            raise SystemExit("no error")
        except jax.errors.JaxRuntimeError as error:
            assert "ValueError: not as it should be" in str(error)
        assert (x + 1)[0] == 1
        """
    )


def test_an_error_in_a_callback_reaches_the_script_and_the_slice_goes_on(run) -> None:
    run(
        SETUP
        + """
        import logging
        logging.disable()
        weights = jnp.ones(3)
        def fail(a):
            raise ValueError("no such batch")
        def wait(a):
            return a * np.asarray(weights * 2)
        for callback, text in ((fail, "ValueError: no such batch"), (wait, "a host callback waits for this device")):
            for call in (jax.pure_callback, io_callback):
                try:
                    jax.jit(lambda x: call(callback, like(x), x))(weights).block_until_ready()
                    raise SystemExit("no error")
                except jax.errors.JaxRuntimeError as error:
                    assert text in str(error), error
                jax._src.dispatch.runtime_tokens.clear()
                assert (weights + 1).tolist() == [2, 2, 2]
        """
    )


def test_a_script_that_is_killed_inside_a_callback_leaves_the_slice_free(start, runtime, run) -> None:
    script = start(
        """
        import jax, time
        def stay(a):
            print("called", flush=True)
            time.sleep(100)
        jax.block_until_ready(jax.jit(lambda x: jax.experimental.io_callback(stay, x, x))(jax.numpy.ones(3)))
        """,
        JAX_PLATFORMS="tpu,cpu",
        **runtime.environment(),
    )
    assert script.process.stdout.readline() == "called\n"
    script.process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while status(runtime.directory)["client"] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run("import jax.numpy as jnp; assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]")
