"""What slices say of themselves: asked over the device link, as a monitor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from backend.errors import TpuError
from backend.host.address import Address
from backend.host.environment import tcp_environment, worker_environment
from backend.host.executor import LocalExecutor
from backend.host.workers import HostedSlice, Process
from backend.link.client import status as ask_slice
from backend.runtime.parties import Trouble
from tpuctl.api.home import Home
from tpuctl.api.nodes import NodeState
from tpuctl.api.status import Core, Slice, SliceDetail, SliceFault, SliceWorker
from tpuctl.control.hosted import kind_of
from tpuctl.control.node_faults import node_health
from tpuctl.store import NodeRow

Said = Mapping[str, Any]
ATTACHED = "attached"
"""The job that processes which share a slice without a job of ours count as."""
ANSWERING = frozenset({NodeState.READY, NodeState.STOPPING, NodeState.DELETING})


def ask(home: Home, node: NodeRow, *, cores: bool = False) -> Said | None:
    """The runtime's own status, with that of each core if asked for; None if it does not answer."""
    if node.state not in ANSWERING:
        return None
    try:
        return ask_slice(home.slice(node.uid), cores=cores)
    except TpuError:
        return None


def ask_all(home: Home, nodes: list[NodeRow]) -> list[Said | None]:
    """The status of several runtimes, asked at the same time."""
    if not nodes:
        return []
    with ThreadPoolExecutor(max_workers=min(8, len(nodes))) as pool:
        return list(pool.map(lambda node: ask(home, node), nodes))


def device_seconds(said: Said | None, job: str) -> float | None:
    """Simulated device time that programs of ``job`` have taken on a slice; None if the slice did not say."""
    if said is None:
        return None
    session = said["sessions"].get(job)
    return 0.0 if session is None else float(session["deviceSeconds"])


def trouble(said: Said | None, job: str) -> Trouble | None:
    """What the slice says of launches of ``job`` that could not be."""
    found = None if said is None else said.get("troubles", {}).get(job)
    return None if found is None else Trouble(**found)


def run(said: Said | None, job: str) -> dict[str, Any] | None:
    """What the slice says of the processes of ``job`` that have attached last; None if none has."""
    runs = [] if said is None else said.get("runs", [])
    return next((found for found in reversed(runs) if found["job"] == job), None)


def slice_view(node: NodeRow, now: float, said: Said | None, job: str | None) -> Slice:
    """A slice as `status` shows it; ``job`` is the one that runs on it."""
    shape = kind_of(node)
    health, description = node_health(node, now)
    heard: Said = said or {}
    return Slice(
        name=node.name,
        zone=node.zone,
        type=node.accelerator_type,
        state=node.state,
        health=health,
        health_description=description,
        endpoint=str(Address(node.host, node.port)),
        topology=shape.topology,
        num_slices=node.num_slices,
        hosts=shape.num_hosts * node.num_slices,
        chips=shape.num_chips * node.num_slices,
        cores=shape.num_cores * node.num_slices,
        hbm_bytes_in_use=heard.get("hbmBytesInUse"),
        hbm_bytes_limit=heard.get("hbmBytesLimit"),
        mxu_busy_share=heard.get("mxuBusyShare"),
        programs_run=heard.get("programsRun"),
        device_seconds=heard.get("deviceSeconds"),
        job=job,
        faults=[SliceFault.model_validate(fault) for fault in heard.get("faults", [])],
    )


def slice_detail(
    executor: LocalExecutor,
    node: NodeRow,
    now: float,
    hosted: HostedSlice,
    process: Process,
    said: Said | None,
    job: str | None,
    startup_script: str | None = None,
    ssh_port: int | None = None,
) -> SliceDetail:
    """A slice with what `attach` and `describe` show; the environment is that of ``process``."""
    directory = hosted.directory
    identity = executor.identity(directory)
    try:
        token = (directory / "token").read_text().strip()
    except FileNotFoundError:
        token = ""
    together = ATTACHED if process.count > 1 else None
    return SliceDetail(
        **slice_view(node, now, said, job).model_dump(),
        workers=[SliceWorker.model_validate(dataclasses.asdict(worker)) for worker in hosted.workers],
        per_core=[Core.model_validate(core) for core in (said["cores"] if said else [])],
        directory=str(directory),
        startup_script=startup_script,
        ssh_port=ssh_port,
        socket=str(directory / "link.sock"),
        pid=None if identity is None else identity.pid,
        environment=worker_environment(hosted, process, together),
        environment_tcp=tcp_environment(hosted, process, together, token),
    )
