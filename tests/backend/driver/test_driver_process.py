"""The driver as part of somebody's process: quiet without a slice, robust with one, clear when the slice is gone."""

from __future__ import annotations

import os
import signal
import time

import pytest

from backend.link.client import status

BUSY = """
    import jax, jax.numpy as jnp, time
    x = jnp.ones((1000, 1000)).block_until_ready()
    print("ready", flush=True)
    f = jax.jit(lambda x: x + 1)
    while True:
        {action}
"""


def test_without_a_slice_jax_is_untouched(start) -> None:
    status_, out, err = start("""
        import sys, jax
        assert [d.platform for d in jax.devices()] == ["cpu"]
        heavy = {"backend.driver.plugin", "backend.driver.native", "backend.link", "llvmlite", "msgspec", "psutil"}
        print(sorted(heavy & set(sys.modules)))
    """).result()
    assert (status_, out.strip(), err) == (0, "[]", "")


def test_jax_platforms_cpu_is_untouched_even_with_a_slice(start, runtime) -> None:
    code = "import jax; assert [d.platform for d in jax.devices()] == ['cpu']; assert (jax.numpy.ones(2) + 1)[0] == 2"
    result = start(code, JAX_PLATFORMS="cpu", **runtime.environment()).result()
    assert result == (0, "", "")
    assert status(runtime.directory)["client"] is None


def test_a_slice_that_is_gone_is_named_with_what_to_do(start, tmp_path) -> None:
    link = f"unix://{tmp_path}/link.sock"
    code, _, err = start("import jax; jax.devices()", JAX_PLATFORMS="tpu,cpu", TPUCTL_SLICE=link).result(20)
    last = err.strip().splitlines()[-1]
    assert code == 1
    assert f"UNAVAILABLE: no slice runtime answers at {link}" in last
    assert "tpuctl list slices" in last


def test_a_second_process_is_refused_with_the_first_ones_pid(start, runtime) -> None:
    first = start(BUSY.format(action="time.sleep(0.1)"), JAX_PLATFORMS="tpu,cpu", **runtime.environment())
    assert first.process.stdout.readline() == "ready\n"
    code, _, err = start("import jax; jax.devices()", JAX_PLATFORMS="tpu,cpu", **runtime.environment()).result()
    assert code == 1
    assert f"in use: process {first.process.pid}, job test" in err


def test_killing_the_process_frees_hbm_and_chips(start, runtime, run) -> None:
    busy = start(BUSY.format(action="x = f(x)"), JAX_PLATFORMS="tpu,cpu", **runtime.environment())
    assert busy.process.stdout.readline() == "ready\n"
    busy.process.send_signal(signal.SIGKILL)
    busy.process.wait()
    run("import jax.numpy as jnp; assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]")
    deadline = time.monotonic() + 5
    while status(runtime.directory)["hbmBytesInUse"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "action", ["x = f(x)", "x = f(x).block_until_ready()", "jax.device_put(jax.device_get(x + 0))"]
)
def test_killing_the_runtime_is_a_clear_error_not_a_hang(start, own_runtime, action: str) -> None:
    busy = start(BUSY.format(action=action), JAX_PLATFORMS="tpu,cpu", **own_runtime.environment())
    assert busy.process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    own_runtime.process.kill()
    code, _, err = busy.result(20)
    assert code == 1
    assert 'UNAVAILABLE: slice "test" has ended while this process was using it' in err


def test_exceptions_survive_the_death_of_arrays(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: x + 1)
        def fail(x):
            y = f(x)
            z = f(y)
            raise ValueError("mine")
        x = jnp.ones(8)
        for _ in range(500):
            try:
                fail(x)
            except ValueError as error:
                assert str(error) == "mine"
    """)


def test_threads_may_compute_and_copy_at_once(run) -> None:
    run("""
        import threading, jax, jax.numpy as jnp, numpy as np
        f, errors = jax.jit(lambda x: x + 1), []
        def work(i):
            try:
                x, big = jnp.full((8,), float(i)), np.full((1000, 1100), i, "float32")
                for _ in range(50):
                    x = f(x)
                    assert np.asarray(f(x))[0] == x[0] + 1
                for _ in range(3):
                    assert (np.asarray(jax.device_put(big)) == i).all()
                assert x.tolist() == [i + 50] * 8
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(7)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors, errors
    """)


def test_the_process_ends_with_arrays_alive_and_work_in_flight(run) -> None:
    run("""
        import atexit, jax, jax.numpy as jnp
        f = jax.jit(lambda x: x @ x * 0.001)
        x = kept = jnp.ones((500, 500))
        for _ in range(20):
            x = f(x)
        later = [f(x) for _ in range(5)]
    """)


def test_the_process_ends_quietly_with_many_arrays_just_dropped(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: x + 1)
        x = jnp.ones(8)
        for _ in range(200):
            f(x)
        kept = [f(x) for _ in range(200)]
    """)


def test_a_process_that_raises_ends_with_its_traceback(start, runtime) -> None:
    code, _, err = start(
        """
        import jax, jax.numpy as jnp
        x = jnp.ones(8) + 1
        raise SystemError("the user's")
        """,
        JAX_PLATFORMS="tpu,cpu",
        **runtime.environment(),
    ).result()
    assert code == 1
    assert err.strip().endswith("SystemError: the user's")


def test_a_forked_child_does_not_hold_the_chips(start, runtime, run) -> None:
    parent = start(
        """
        import os, sys, time, warnings
        warnings.simplefilter("ignore")
        import jax.numpy as jnp
        x = jnp.ones(8).block_until_ready()
        child = os.fork()
        if child == 0:
            sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)
            time.sleep(20)
            os._exit(0)
        print(child, flush=True)
        os._exit(0)
        """,
        JAX_PLATFORMS="tpu,cpu",
        **runtime.environment(),
    )
    child = int(parent.process.stdout.readline())
    try:
        run("import jax.numpy as jnp; assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]")
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_backend_can_be_cleared_and_made_again(run) -> None:
    run("""
        import jax, jax.numpy as jnp
        x = jnp.ones(4)
        del x
        jax.clear_caches()
        jax.extend.backend.clear_backends() if hasattr(jax, "extend") else None
        assert (jnp.ones(4) + 1).tolist() == [2] * 4
    """)


def test_on_another_system_than_linux_devices_are_refused_and_the_cpu_is_not_used_instead(start) -> None:
    code = "import sys, jax; sys.platform = 'darwin'; jax.devices()"
    status_, _, err = start(code, TPUCTL_SLICE="unix:///nowhere").result()
    assert status_ == 1
    assert "the slice runtime needs Linux (this is darwin)" in err.strip().splitlines()[-1]
