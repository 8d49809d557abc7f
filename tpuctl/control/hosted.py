"""How do its hosts see a slice, and which of them does each process of a job own?"""

from __future__ import annotations

from functools import cache

from backend.hardware import AcceleratorType, accelerator_type
from backend.host.address import Address
from backend.host.workers import HostedSlice, Process, default_processes, processes
from tpuctl.api.errors import InvalidArgument
from tpuctl.api.home import Home
from tpuctl.store import NodeRow


def kind_of(node: NodeRow) -> AcceleratorType:
    """The shape of each of the node's slices."""
    return _kind(node.accelerator_type, node.topology)


_kind = cache(accelerator_type)


def num_hosts(node: NodeRow) -> int:
    return kind_of(node).num_hosts * node.num_slices


def hosted_slice(home: Home, node: NodeRow) -> HostedSlice:
    return HostedSlice(
        directory=home.slice(node.uid),
        uid=node.uid,
        name=node.name,
        zone=node.zone,
        project=node.project,
        kind=kind_of(node),
        address=Address(node.host, node.port),
        num_slices=node.num_slices,
        metadata=node.spec.get("metadata") or {},
    )


def shares(hosted: HostedSlice, wanted: int | None) -> list[Process]:
    """The processes of a job that wants so many; by default as many as suit. Raises InvalidArgument."""
    try:
        return processes(hosted, default_processes(hosted.num_hosts) if wanted is None else wanted)
    except ValueError as error:
        raise InvalidArgument.of_fields({"processes": str(error)}) from error


def some_of(shared: list[Process], wanted: list[int] | None) -> list[Process]:
    """Those of the numbers ``wanted``, each once, or all. Raises InvalidArgument."""
    if wanted is None:
        return shared
    wrong = [number for number in wanted if not 0 <= number < len(shared)]
    if wrong or not wanted:
        there = "there is only worker 0" if len(shared) == 1 else f"workers are 0 to {len(shared) - 1}"
        raise InvalidArgument(f"there is no worker {wrong[0] if wrong else 'chosen'}: {there}")
    return [shared[number] for number in sorted(set(wanted))]
