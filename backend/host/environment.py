"""What does a process on the TPU VM see in its environment, so that JAX and other stacks find the slice?

The names are those that JAX, torch_xla, Ray and libtpu read. With them `jax.distributed.initialize()` needs no
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.hardware import AcceleratorType
from backend.host.address import COORDINATOR_PORT
from backend.host.workers import Bounds, HostedSlice, Process, process_bounds, processes


def worker_environment(hosted: HostedSlice, process: Process, job: str | None) -> dict[str, str]:
    """The variables of one process of ``job``, attached over the Unix socket in the slice's directory."""
    return {
        "TPUCTL_SLICE": f"unix://{hosted.directory}/link.sock",
        **_common(hosted, process),
        **({"TPUCTL_JOB": job} if job else {}),
    }


def tcp_environment(hosted: HostedSlice, process: Process, job: str | None, token: str) -> dict[str, str]:
    """The same over the slice's TCP endpoint, which asks for the slice's ``token``."""
    return worker_environment(hosted, process, job) | {
        "TPUCTL_SLICE": f"tcp://{hosted.address}",
        "TPUCTL_SLICE_TOKEN": token,
    }


def _common(hosted: HostedSlice, process: Process) -> dict[str, str]:
    coordinator = hosted.address.coordinator
    found = {
        "JAX_PLATFORMS": "tpu,cpu",
        "JAX_FORCE_TPU_INIT": "1",
        "JAX_COORDINATOR_BIND_ADDRESS": str(coordinator),
        "KERAS_BACKEND": "jax",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_NAME": hosted.name,
        "TPU_ZONE": hosted.zone,
        "TPU_ACCELERATOR_TYPE": hosted.kind.name,
        **_place(hosted, process),
        **geometry(hosted, process),
        **megascale(hosted, process),
    }
    if coordinator.port != COORDINATOR_PORT:
        found["JAX_COORDINATOR_PORT"] = str(coordinator.port)
    if process.count > 1:
        found["TPUCTL_PROCESS"] = f"{process.index}/{process.count}"
    return found


def _place(hosted: HostedSlice, process: Process) -> dict[str, str]:
    """Which worker it is, of which: those of its own slice."""
    _, peers, index = slice_of(hosted, process)
    return {
        "TPU_WORKER_ID": str(index),
        "CLOUD_TPU_TASK_ID": str(index),
        "TPU_WORKER_HOSTNAMES": ",".join(peer.worker.ip_address for peer in peers),
    }


def geometry(hosted: HostedSlice, process: Process) -> dict[str, str]:
    """The slice's shape, and the processes' shares of it if they are boxes."""
    kind, hosts, held = hosted.kind, hosted.host_bounds, hosted.chips_per_host_bounds
    found = {
        "TPU_TOPOLOGY": topology_text(kind),
        "TPU_TOPOLOGY_ALT": "true" if kind.twisted else "false",
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds_text(held),
        "TPU_HOST_BOUNDS": bounds_text(hosts),
        "TPU_TOPOLOGY_WRAP": wrap_text(kind.wrap),
    }
    _, peers, _ = slice_of(hosted, process)
    grid = process_bounds(hosts, len(peers)) if len(peers) <= kind.num_hosts else None
    if grid is not None:
        share = tuple(all_of * chips // own for all_of, chips, own in zip(hosts, held, grid, strict=True))
        found |= {"TPU_PROCESS_BOUNDS": bounds_text(grid), "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds_text(share)}
    return found


def megascale(hosted: HostedSlice, process: Process) -> dict[str, str]:
    """Which slice of how many; one that is alone is number 0 of 1, so that nobody need ask a metadata server."""
    number, peers, _ = slice_of(hosted, process)
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": hosted.workers[0].ip_address,
        "MEGASCALE_NUM_SLICES": str(process.count // len(peers)),
        "MEGASCALE_SLICE_ID": str(number),
    }


def slice_of(hosted: HostedSlice, process: Process) -> tuple[int, list[Process], int]:
    """(slice number, the processes of that slice, which of them this is).

    Processes that own hosts of more than one slice each count as those of one slice.
    """
    slices = hosted.num_slices if process.count % hosted.num_slices == 0 else 1
    in_slice = process.count // slices
    number, index = divmod(process.index, in_slice)
    return number, processes(hosted, process.count)[number * in_slice : (number + 1) * in_slice], index


def bounds_text(bounds: Bounds) -> str:
    return ",".join(map(str, bounds))


def topology_text(kind: AcceleratorType) -> str:
    """Chips along each axis; whether the torus is twisted is told apart from it."""
    return "x".join(map(str, kind.shape))


def wrap_text(wrap: Iterable[bool]) -> str:
    """``true,true,false``: which axes close to rings; an axis that the slice does not have does not."""
    return ",".join("true" if axis else "false" for axis in (*wrap, False, False)[:3])


USER_CHOICES = frozenset({"KERAS_BACKEND"})
"""Variables that a user's own setting wins over."""

_LOOPBACK = "127.0.0.0/8"
_PROXY_EXCEPTIONS = ("no_proxy", "NO_PROXY")

_NOT_THE_RUNTIMES = ("TPUCTL_SLICE", "TPUCTL_JOB", "TPU_", "JAX_", "XLA_")
"""What a user sets for their own programs; a slice is the same whoever started it."""


def runtime_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a slice's runtime, which has its own thread pool over single-threaded BLAS."""
    kept = {name: value for name, value in given.items() if not name.startswith(_NOT_THE_RUNTIMES)}
    return kept | {"OPENBLAS_NUM_THREADS": "1"}


def merged(user: dict[str, str], worker: dict[str, str]) -> dict[str, str]:
    """The user's environment with the worker's on top, but for USER_CHOICES; a proxy is not for other workers."""
    kept = {name: user[name] for name in USER_CHOICES & user.keys()}
    if any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in user):
        kept |= {name: ",".join(filter(None, (user.get(name), _LOOPBACK))) for name in _PROXY_EXCEPTIONS}
    return user | worker | kept
