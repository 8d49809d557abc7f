"""Every slice has loopback addresses of its own, one a host."""

from __future__ import annotations

import socket
import sys

import pytest

from backend.errors import ResourceExhausted
from backend.host.address import Address, Block, candidates, free_block

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has all of 127/8")


def test_addresses_are_free_and_outside_those_taken() -> None:
    first = free_block("seed", [], 256)
    second = free_block("seed", [first], 256)
    assert first.first.port == second.first.port == 8470
    assert len({*first.hosts(), *second.hosts()}) == 512
    assert all(host.startswith("127.84.") for host in first.hosts())


def test_a_small_slice_does_not_land_inside_a_large_one() -> None:
    pod = free_block("seed", [], 1024)
    for _ in range(3):
        assert free_block("seed", [pod]).first.host not in pod.hosts()


def test_no_free_address_is_told() -> None:
    everything = Block(Address("127.84.0.1", 8470), 256 * 254)
    with pytest.raises(ResourceExhausted, match="no free loopback addresses for 4 hosts"):
        free_block("seed", [everything], 4)


def test_addresses_are_usable_hosts_and_each_comes_once() -> None:
    hosts = Block(Address("127.84.0.1", 8470), 256 * 254).hosts()
    assert len(set(hosts)) == 256 * 254
    assert {int(host.rsplit(".", 1)[-1]) for host in hosts} == set(range(1, 255))
    assert sorted(candidates("any")) == list(range(256 * 254))


def test_where_there_is_only_one_address_all_hosts_have_it() -> None:
    assert Block(Address("127.0.0.1", 1234), 3).hosts() == ["127.0.0.1"] * 3


def test_the_coordinator_is_on_the_port_that_jax_expects() -> None:
    assert str(Address("127.84.1.1", 8470).coordinator) == "127.84.1.1:8482"


def test_an_address_listens_while_somebody_accepts_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        assert address.listens()
    assert not address.listens()
