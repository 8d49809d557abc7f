"""Which workers does a slice have, and which of its hosts does each process of a job own?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path

from backend.hardware import AcceleratorType
from backend.hardware.locations import host_tile
from backend.hardware.torus import shape_3d
from backend.host.address import Address, Block

MOST_BY_DEFAULT = 8
"""A slice of more hosts than this is driven by one process unless another number is asked for."""

Bounds = tuple[int, ...]


@dataclass(frozen=True)
class Worker:
    """One host: ``index`` counts over all slices of a multislice."""

    index: int
    name: str
    ip_address: str


@dataclass(frozen=True)
class HostedSlice:
    """A slice as its hosts see it: ``num_slices`` slices of ``kind``, joined over the data-centre network if several.

    ``directory`` is the runtime's, ``address`` where it listens; ``uid`` is hexadecimal. ``metadata`` is what its users
    have put there for its hosts to read.
    """

    directory: Path
    uid: str
    name: str
    zone: str
    project: str
    kind: AcceleratorType
    address: Address
    num_slices: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def num_hosts(self) -> int:
        return self.kind.num_hosts * self.num_slices

    @cached_property
    def workers(self) -> list[Worker]:
        """One a host, those of the first slice first; named as Cloud TPU names its VMs."""
        addresses = Block(self.address, self.num_hosts).hosts()
        return [Worker(index, f"t1v-n-{self.uid[:8]}-w-{index}", ip) for index, ip in enumerate(addresses)]

    @property
    def chips_per_host_bounds(self) -> Bounds:
        """The box of chips that a host holds, in chips along x, y, z."""
        return host_tile(self.kind)

    @property
    def host_bounds(self) -> Bounds:
        """Hosts along x, y, z of one slice."""
        held = self.chips_per_host_bounds
        return tuple(chips // of_host for chips, of_host in zip(shape_3d(self.kind), held, strict=True))


@dataclass(frozen=True)
class Process:
    """One of the ``count`` processes of a job, with the workers whose hosts it owns; it runs on the first of them."""

    index: int
    count: int
    workers: Sequence[Worker]

    @property
    def worker(self) -> Worker:
        return self.workers[0]


def default_processes(hosts: int) -> int:
    """As many as there are hosts, where this machine should run so many; else one that drives all of them."""
    return hosts if hosts <= MOST_BY_DEFAULT else 1


def processes(hosted: HostedSlice, count: int) -> list[Process]:
    """``count`` processes with an equal share of the hosts each. Raises ValueError."""
    hosts = hosted.num_hosts
    if count < 1 or hosts % count:
        one = hosts == 1
        allowed = [number for number in range(1, hosts + 1) if hosts % number == 0]
        has = f"{hosted.name} ({hosted.kind.name}) has {'1 host' if one else f'{hosts} hosts'}"
        use = "use 1" if one else f"use {', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
        raise ValueError(f"{count} processes can't have an equal share of the hosts: {has}; {use}")
    share = hosts // count
    return [Process(index, count, hosted.workers[index * share : (index + 1) * share]) for index in range(count)]


def process_bounds(host_bounds: Bounds, count: int) -> Bounds | None:
    """Processes along x, y, z, if each of ``count`` owns a box of hosts that follow each other; else None."""
    share = prod(host_bounds) // count
    bounds = []
    for hosts in host_bounds:
        inside = min(share, hosts)
        if hosts % inside or share % inside:
            return None
        bounds.append(hosts // inside)
        share //= inside
    return tuple(bounds) if prod(bounds) == count else None
