"""Which loopback address a slice gets: 127.84.a.b:8470 where every 127.x address is the host's own, as on Linux."""

from __future__ import annotations

import socket
import sys
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from backend.errors import ResourceExhausted

TPU_PORT = 8470
_TRIES = 256


@dataclass(frozen=True)
class Address:
    """A TCP endpoint."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def free_address(seed: str, taken: Collection[Address]) -> Address:
    """An address outside ``taken`` that can be bound now. Raises ResourceExhausted if none is found.

    Where it starts to look depends on ``seed``, so that several homes on one machine rarely meet.
    """
    if not sys.platform.startswith("linux"):
        return Address("127.0.0.1", _free_port())
    for address in candidates(seed):
        if address not in taken and _can_bind(address):
            return address
    raise ResourceExhausted(f"no free loopback address among {_TRIES} of 127.84.0.0/16 with port {TPU_PORT}")


def candidates(seed: str) -> Iterator[Address]:
    """Addresses of 127.84.0.0/16 from a place that depends on ``seed`` on, without .0 and .255 endings."""
    first = zlib.crc32(seed.encode())
    for step in range(_TRIES):
        number = (first + step) % (256 * 254)
        yield Address(f"127.84.{number // 254}.{number % 254 + 1}", TPU_PORT)


def _can_bind(address: Address) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
