"""Several processes of one job on one slice, as its hosts' scripts: JAX over all of their devices."""

from __future__ import annotations

import ast
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from backend.link.client import status
from tests.backend.driver.conftest import Runtime, Script, start_runtime


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Two joined slices of 2 hosts, 4 devices a host."""
    started = start_runtime(tmp_path_factory.mktemp("pod"), "--type", "v4-16", "--slices", "2")
    yield started
    started.stop()


@pytest.fixture
def workers(start: Callable[..., Script], pod: Runtime) -> Callable[..., list[Script]]:
    """Starts the same code in several processes of one job."""

    def start_all(code: str, processes: int, **environment: str) -> list[Script]:
        told = pod.environment() | {"JAX_PLATFORMS": "tpu,cpu"} | environment
        return [start(code, **told, TPUCTL_PROCESS=f"{index}/{processes}") for index in range(processes)]

    return start_all


TRAINING = """\
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
w = jax.device_put(np.zeros(16, "float32"), NamedSharding(mesh, P("x")))
def train_step(w):
    return w + w.sum()
step = jax.jit(train_step)
step(w).block_until_ready()
print("ready", flush=True)
while True:
    w = step(w)
    w.block_until_ready()
"""

PROGRAMS = """
    import hashlib, jax, jax.numpy as jnp, numpy as np
    from functools import partial
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(4, 4), ("data", "model"))
    rows, blocks, whole = (NamedSharding(mesh, P(*axes)) for axes in (("data",), ("data", "model"), ()))
    rng = np.random.default_rng(0)
    host = rng.normal(size=(16, 32)).astype("float32"), rng.normal(size=(32, 8)).astype("float32")
    x = jax.make_array_from_callback(host[0].shape, rows, lambda index: host[0][index])
    w = jax.device_put(host[1], NamedSharding(mesh, P(None, "model")))

    def loss(w, x):
        return jnp.tanh(x @ w).var()

    @partial(jax.jit, donate_argnums=0)
    def step(w, x):
        return w - 0.1 * jax.grad(loss)(w, x)

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=P("data", "model"), out_specs=P("data", "model"))
    def ring(block):
        ahead = [(i, (i + 1) % 4) for i in range(4)]
        return jax.lax.ppermute(block, "model", ahead) + jax.lax.psum(block, "data") * jax.lax.axis_index("model")

    results = {}
    for _ in range(3):
        w = step(w, x)
    results["trained"] = w
    results["ring"] = ring(jax.device_put(host[0], blocks))
    results["moved"] = jax.jit(lambda a: a * 2, out_shardings=blocks)(x)
    results["sum"] = jax.jit(jnp.sum)(results["moved"])
    results["random"] = jax.jit(lambda key: jax.random.normal(key, (16, 8)), out_shardings=rows)(jax.random.key(1))
    results["sorted"] = jax.jit(lambda a: jnp.sort(a, axis=0))(x)
    column = Mesh(np.array(jax.devices())[::-1].reshape(16), ("all",))
    results["reversed"] = jax.jit(lambda a: a.cumsum(0))(jax.device_put(host[0], NamedSharding(column, P("all"))))
    print({
        (name, shard.device.id): hashlib.sha256(np.asarray(shard.data).tobytes()).hexdigest()[:16]
        for name, array in results.items()
        for shard in array.addressable_shards
    })
"""


@pytest.mark.slow
def test_programs_give_each_process_the_bits_that_one_process_gets(workers, pod: Runtime) -> None:
    ran = []
    for processes in (1, 2):
        results = [script.result() for script in workers(PROGRAMS, processes)]
        assert [(code, err) for code, _, err in results] == [(0, "")] * processes
        ran.append([ast.literal_eval(out) for _, out, _ in results])
    (alone,), (first, second) = ran
    assert {device for _, device in first} == set(range(8))
    assert {device for _, device in second} == set(range(8, 16))
    assert first | second == alone
    assert status(pod.directory)["hbmBytesInUse"] == 0


def test_jax_knows_its_processes_and_their_devices(start, pod: Runtime) -> None:
    """Also where nothing but jax.distributed says which process it is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code = """
        import sys, jax, jax.numpy as jnp, numpy as np
        from jax.experimental import mesh_utils, multihost_utils
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        index = {index}
        jax.distributed.initialize("{address}", 2, index)
        assert (jax.process_count(), jax.process_index(), jax.device_count()) == (2, index, 16)
        local = jax.local_devices()
        assert [device.id for device in local] == list(range(8 * index, 8 * index + 8))
        assert [device.local_hardware_id for device in local] == list(range(8))
        assert [device.slice_index for device in jax.devices()] == [0] * 8 + [1] * 8
        assert local[7].memory_stats()["bytes_in_use"] == 0
        hybrid = mesh_utils.create_hybrid_device_mesh((2, 4), (2, 1))
        assert [[device.slice_index for device in row] for row in hybrid] == [[0] * 4] * 2 + [[1] * 4] * 2

        assert multihost_utils.process_allgather(np.array([index + 1.0])).tolist() == [[1.0], [2.0]]
        assert multihost_utils.broadcast_one_to_all(np.arange(3) + index).tolist() == [0, 1, 2]
        mesh = Mesh(np.array(jax.devices()), ("x",))
        own = np.full((8, 2), index, "float32")
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), own)
        assert x.shape == (16, 2) and float(jnp.sum(x)) == 16
        heard = []
        over_all = jax.shard_map(
            lambda v: jax.pure_callback(lambda a: heard.append(1) or np.asarray(a) + 1, jax.typeof(v), v),
            mesh=mesh, in_specs=P("x"), out_specs=P("x"),
        )
        y = jax.jit(over_all)(x)
        assert all((np.asarray(shard.data) == index + 1).all() for shard in y.addressable_shards) and len(heard) == 8
        mine = Mesh(np.array(local), ("x",))
        z = jax.jit(jnp.cumsum)(jax.device_put(np.arange(16.0 + index), jax.NamedSharding(mine, P())))
        assert float(z[-1]) == sum(range(16 + index))
        assert jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i")(np.ones(8)).tolist() == [16] * 8
        if index:
            for _ in range(3):
                z = z + 1  # goes on alone
        multihost_utils.sync_global_devices("end")
        jax.distributed.shutdown()
        print("done")
    """
    told = pod.environment() | {"JAX_PLATFORMS": "tpu,cpu", "TPUCTL_JOB": "distributed"}
    scripts = [start(code.format(index=index, address=address), **told) for index in range(2)]
    for script in scripts:
        code, out, err = script.result()
        assert (code, out) == (0, "done\n"), err
    assert status(pod.directory)["troubles"] == {}


def test_a_killed_worker_is_named_to_the_others_with_the_line_they_wait_at(workers, pod: Runtime, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    first, second = workers(f"import runpy; runpy.run_path({str(script)!r})", 2, TPUCTL_JOB="killed")
    assert [script.process.stdout.readline() for script in (first, second)] == ["ready\n"] * 2
    second.process.send_signal(signal.SIGKILL)
    exit_status, _, err = first.result(10)
    text = f"worker 1 (pid {second.process.pid}) ended without launching jit_train_step (train.py:6)"
    assert exit_status == 1
    assert f"slice test: launch failed: {text}" in err
    assert f"JaxRuntimeError: FAILED_PRECONDITION: {text}" in err.splitlines()[-1]
    assert text in status(pod.directory)["troubles"]["killed"]["text"]
