"""Which processes have come to jax.distributed.initialize()? Seen from outside, in what the kernel shows of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from backend.host.address import Address

_CLIENT_THREAD = "event_engine"
"""The name of a thread that gRPC, with which JAX calls its coordinator, starts with the first client of a process."""


def come_to_initialize(coordinator: Address, commands: Mapping[int, int]) -> set[int]:
    """Those of the workers whose commands, given by their pids, have come there, themselves or a process they started.

    With a coordinator they hold a connection to it. Without one they cannot; then those count that try to call
    somebody by gRPC, which may be somebody else.
    """
    come = _is_connected if coordinator.listens() else _calls_by_grpc
    return {
        worker for worker, pid in commands.items() if any(come(process, coordinator) for process in _with_children(pid))
    }


def _with_children(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        yield process
        yield from process.children(recursive=True)


def _is_connected(process: psutil.Process, coordinator: Address) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(
            connection.raddr and _address(*connection.raddr) == coordinator
            for connection in process.net_connections("tcp")
        )
    return False


def _address(ip: str, port: int) -> Address:
    """An IPv4 address also where the socket is of IPv6, as gRPC's are."""
    return Address(ip.removeprefix("::ffff:"), port)


def _calls_by_grpc(process: psutil.Process, _: Address) -> bool:
    with contextlib.suppress(OSError):
        return any(
            name.read_text().strip() == _CLIENT_THREAD for name in Path(f"/proc/{process.pid}/task").glob("*/comm")
        )
    return False
