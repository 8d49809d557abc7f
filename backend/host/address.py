"""Which loopback addresses do a slice's hosts get? Successive ones of 127.84.0.0/16, where 127.x is the host's own.

The slice's runtime listens on the first, port 8470; on the same address its coordinator of jax.distributed does.
"""

from __future__ import annotations

import socket
import sys
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from backend.errors import ResourceExhausted

TPU_PORT = 8470
COORDINATOR_PORT = 8482
"""Where jax.distributed's coordinator listens on worker 0, unless told otherwise."""

_NUMBERS = 256 * 254
"""Addresses of 127.84.0.0/16 without .0 and .255 endings."""
_TRIES = 256
_PROBE_SECONDS = 0.2


@dataclass(frozen=True)
class Address:
    """A TCP endpoint."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def coordinator(self) -> Address:
        """Where the slice whose runtime listens here has its coordinator of jax.distributed."""
        return Address(self.host, self.port + COORDINATOR_PORT - TPU_PORT)

    def listens(self) -> bool:
        """Whether somebody accepts connections here."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_SECONDS)
            return probe.connect_ex((self.host, self.port)) == 0


@dataclass(frozen=True)
class Block:
    """The addresses of a slice's hosts: ``count`` successive ones, from that of its runtime on."""

    first: Address
    count: int = 1

    @property
    def number(self) -> int | None:
        """That of its first address; None where there is only 127.0.0.1."""
        return _number(self.first.host)

    def hosts(self) -> list[str]:
        """One IP address a host; where there is only 127.0.0.1, all have that one."""
        number = _number(self.first.host)
        if number is None:
            return [self.first.host] * self.count
        return [_host(number + step) for step in range(self.count)]


def free_block(
    seed: str,
    taken: Collection[Block],
    count: int = 1,
    is_taken: Callable[[int, int], bool] = lambda first, count: False,
) -> Block:
    """Addresses for ``count`` hosts outside those ``taken``, of which the first can be bound now.

    ``is_taken`` says of a number of an address whether it, or one of so many from it on, is taken as well.

    Where it starts to look depends on ``seed``, so that several homes on one machine rarely meet. Raises
    ResourceExhausted if there are none.
    """
    if not sys.platform.startswith("linux"):
        return Block(Address("127.0.0.1", _free_port()), count)
    spans = [(number, block.count) for block in taken if (number := _number(block.first.host)) is not None]
    tries = 0
    for number in candidates(seed):
        if number + count > _NUMBERS or any(
            number < start + length and start < number + count for start, length in spans
        ):
            continue
        if is_taken(number, count):
            continue
        address = Address(_host(number), TPU_PORT)
        if _can_bind(address):
            return Block(address, count)
        tries += 1
        if tries == _TRIES:
            break
    raise ResourceExhausted(
        f"no free loopback addresses for {count} hosts in 127.84.0.0/16, port {TPU_PORT}; delete a slice first"
    )


def candidates(seed: str) -> Iterator[int]:
    """The number of every address once, from a place that depends on ``seed`` on."""
    first = zlib.crc32(seed.encode())
    return ((first + step) % _NUMBERS for step in range(_NUMBERS))


def _host(number: int) -> str:
    return f"127.84.{number // 254}.{number % 254 + 1}"


def _number(host: str) -> int | None:
    """The inverse of _host; None for an address that is none of ours."""
    first, second, high, low = map(int, host.split("."))
    return high * 254 + low - 1 if (first, second) == (127, 84) else None


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
