"""Every process of a job knows who it is, which hosts it owns, and how to meet the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.hardware import accelerator_type
from backend.host.address import Address
from backend.host.environment import merged, tcp_environment, worker_environment
from backend.host.workers import HostedSlice, default_processes, process_bounds, processes


def hosted(kind: str = "v3-32", num_slices: int = 1, address: str = "127.84.1.1") -> HostedSlice:
    where = Address(address, 8470)
    return HostedSlice(Path("/s"), "0123456789ab", "a", "z", "local", accelerator_type(kind), where, num_slices)


def environments(one: HostedSlice, count: int) -> list[dict[str, str]]:
    return [worker_environment(one, process, "train") for process in processes(one, count)]


def test_workers_have_names_and_addresses_of_their_own() -> None:
    workers = hosted().workers
    assert [worker.name for worker in workers] == [f"t1v-n-01234567-w-{index}" for index in range(4)]
    assert [worker.ip_address for worker in workers] == ["127.84.1.1", "127.84.1.2", "127.84.1.3", "127.84.1.4"]


@pytest.mark.parametrize(("hosts", "count"), [(1, 1), (2, 2), (8, 8), (16, 1), (256, 1)])
def test_up_to_eight_hosts_have_a_process_each(hosts: int, count: int) -> None:
    assert default_processes(hosts) == count


def test_processes_own_equal_shares_of_the_hosts_in_order() -> None:
    first, second = processes(hosted(), 2)
    assert [worker.index for worker in first.workers] == [0, 1]
    assert [worker.index for worker in second.workers] == [2, 3]
    assert second.worker.name.endswith("-w-2")


@pytest.mark.parametrize("count", [0, 3, 5, 8])
def test_unequal_shares_are_refused_with_what_is_possible(count: int) -> None:
    with pytest.raises(ValueError, match=rf"{count} processes .* a \(v3-32\) has 4 hosts; use 1, 2 or 4"):
        processes(hosted(), count)


def test_a_host_a_process_is_what_cloud_tpu_has() -> None:
    seen = environments(hosted(), 4)
    assert [one["TPU_WORKER_ID"] for one in seen] == ["0", "1", "2", "3"]
    assert [one["TPUCTL_PROCESS"] for one in seen] == ["0/4", "1/4", "2/4", "3/4"]
    last = seen[3]
    assert last["TPU_WORKER_HOSTNAMES"] == "127.84.1.1,127.84.1.2,127.84.1.3,127.84.1.4"
    assert (last["TPU_ACCELERATOR_TYPE"], last["TPU_TOPOLOGY"]) == ("v3-32", "4x4")
    assert (last["TPU_CHIPS_PER_HOST_BOUNDS"], last["TPU_HOST_BOUNDS"]) == ("2,2,1", "2,2,1")
    assert (last["TPU_CHIPS_PER_PROCESS_BOUNDS"], last["TPU_PROCESS_BOUNDS"]) == ("2,2,1", "2,2,1")
    assert (last["MEGASCALE_NUM_SLICES"], last["MEGASCALE_SLICE_ID"]) == ("1", "0")
    assert last["JAX_COORDINATOR_BIND_ADDRESS"] == "127.84.1.1:8482"
    assert "JAX_COORDINATOR_PORT" not in last


def test_three_dimensions_wraps_and_twists_are_told() -> None:
    [twisted] = environments(hosted("v4-256"), 1)
    assert (twisted["TPU_TOPOLOGY"], twisted["TPU_HOST_BOUNDS"], twisted["TPU_CHIPS_PER_HOST_BOUNDS"]) == (
        "4x4x8",
        "2,2,8",
        "2,2,1",
    )
    assert (twisted["TPU_TOPOLOGY_WRAP"], twisted["TPU_TOPOLOGY_ALT"]) == ("true,true,true", "true")
    where = Address("127.84.1.1", 8470)
    kind = accelerator_type("v4-256", "4x4x8_untwisted")
    [plain] = environments(HostedSlice(Path("/s"), "ab", "a", "z", "p", kind, where), 1)
    assert (plain["TPU_TOPOLOGY"], plain["TPU_TOPOLOGY_ALT"]) == ("4x4x8", "false")


def test_one_process_drives_all_hosts_alone() -> None:
    [only] = environments(hosted(), 1)
    assert (only["TPU_WORKER_ID"], only["TPU_WORKER_HOSTNAMES"]) == ("0", "127.84.1.1")
    assert (only["TPU_CHIPS_PER_PROCESS_BOUNDS"], only["TPU_PROCESS_BOUNDS"]) == ("4,4,1", "1,1,1")
    assert "TPUCTL_PROCESS" not in only


def test_workers_of_several_slices_count_within_their_own() -> None:
    seen = environments(hosted(num_slices=2), 8)
    assert [one["MEGASCALE_SLICE_ID"] for one in seen] == list("00001111")
    assert [one["TPU_WORKER_ID"] for one in seen] == list("01230123")
    assert {one["MEGASCALE_NUM_SLICES"] for one in seen} == {"2"}
    assert {one["MEGASCALE_COORDINATOR_ADDRESS"] for one in seen} == {"127.84.1.1"}
    assert seen[7]["TPU_WORKER_HOSTNAMES"].split(",")[0] == "127.84.1.5"
    assert seen[7]["TPUCTL_PROCESS"] == "7/8"


def test_processes_that_own_hosts_of_several_slices_are_one_group() -> None:
    [only] = environments(hosted(num_slices=2), 1)
    assert (only["MEGASCALE_NUM_SLICES"], only["TPU_WORKER_HOSTNAMES"]) == ("1", "127.84.1.1")


def test_where_all_slices_share_an_address_their_coordinators_have_ports_of_their_own() -> None:
    one = HostedSlice(Path("/s"), "ab", "a", "z", "p", accelerator_type("v3-32"), Address("127.0.0.1", 5000))
    seen = environments(one, 4)[1]
    assert seen["TPU_WORKER_HOSTNAMES"] == ",".join(["127.0.0.1"] * 4)
    assert (seen["JAX_COORDINATOR_PORT"], seen["JAX_COORDINATOR_BIND_ADDRESS"]) == ("5012", "127.0.0.1:5012")


@pytest.mark.parametrize(
    ("hosts", "count", "grid"),
    [
        ((2, 2, 1), 4, (2, 2, 1)),
        ((2, 2, 1), 2, (1, 2, 1)),
        ((2, 2, 8), 8, (1, 1, 8)),
        ((16, 16, 1), 1, (1, 1, 1)),
        ((3, 2, 1), 3, None),
    ],
)
def test_shares_that_are_boxes_are_told_as_such(
    hosts: tuple[int, ...], count: int, grid: tuple[int, ...] | None
) -> None:
    assert process_bounds(hosts, count) == grid


def test_the_worker_finds_its_slice_over_the_socket_and_others_over_tcp() -> None:
    one = hosted("v3-8")
    [process] = processes(one, 1)
    local = worker_environment(one, process, "train")
    assert local["TPUCTL_SLICE"] == "unix:///s/link.sock"
    assert (local["TPUCTL_JOB"], local["JAX_PLATFORMS"], local["TPU_WORKER_ID"]) == ("train", "tpu,cpu", "0")
    assert "TPUCTL_JOB" not in worker_environment(one, process, None)
    remote = tcp_environment(one, process, None, "secret")
    assert remote["TPUCTL_SLICE"] == "tcp://127.84.1.1:8470"
    assert remote["TPUCTL_SLICE_TOKEN"] == "secret"  # noqa: S105


def test_the_slice_wins_over_the_users_environment_but_not_over_their_backend() -> None:
    [worker] = environments(hosted("v3-8"), 1)
    seen = merged({"JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "torch", "MINE": "1"}, worker)
    assert (seen["JAX_PLATFORMS"], seen["KERAS_BACKEND"], seen["MINE"]) == ("tpu,cpu", "torch", "1")
    assert "no_proxy" not in seen


def test_a_users_proxy_is_not_between_workers() -> None:
    seen = merged({"https_proxy": "http://proxy:3128", "no_proxy": "example.com"}, {})
    assert seen["no_proxy"] == "example.com,127.0.0.0/8"
    assert seen["NO_PROXY"] == "127.0.0.0/8"


@pytest.mark.parametrize(("kind", "num_slices", "count"), [("v3-8", 2, 2)])
def test_jax_finds_all_processes_without_arguments(kind: str, num_slices: int, count: int) -> None:
    """Runs jax.distributed.initialize() for real, on the CPU: what it needs of a TPU VM is the environment."""
    pytest.importorskip("jax")
    code = (
        "import jax; jax.distributed.initialize(); jax.config.update('jax_platforms', 'cpu')\n"
        "print(jax.process_index(), jax.process_count(), flush=True)\n"
        "jax.distributed.shutdown()"
    )
    one = hosted(kind, num_slices, address=f"127.84.{os.getpid() % 200}.{10 * count + num_slices}")
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=kept | environment | {"TPUCTL_SLICE": "", "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments(one, count)
    ]
    try:
        said = [process.communicate(timeout=60) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [out.strip() for out, _ in said] == [f"{index} {count}" for index in range(count)], said
