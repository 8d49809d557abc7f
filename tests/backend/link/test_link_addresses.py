"""Addresses of device links."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from backend.errors import InvalidArgument
from backend.link.addresses import connect, listen_tcp, listen_unix


def test_a_unix_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    with listen_unix(tmp_path / "link.sock"), connect(f"unix://{tmp_path}/link.sock", 1.0):
        assert stat.S_IMODE((tmp_path / "link.sock").stat().st_mode) == 0o600


def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    with listen_unix(deep / "link.sock"), connect(f"unix://{deep}/link.sock", 1.0):
        pass


def test_a_path_with_url_characters_is_taken_literally(tmp_path: Path) -> None:
    odd = tmp_path / "a b%20#?c"
    odd.mkdir()
    with listen_unix(odd / "link.sock"), connect(f"unix://{odd}/link.sock", 1.0):
        pass


def test_a_socket_file_left_behind_is_replaced(tmp_path: Path) -> None:
    listen_unix(tmp_path / "link.sock").close()
    listen_unix(tmp_path / "link.sock").close()


def test_tcp_connects() -> None:
    with listen_tcp("127.0.0.1", 0) as listener, connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}", 1.0):
        pass


@pytest.mark.parametrize("address", ["", "unix://relative", "tcp://host", "tcp://:1", "http://x:1", "/path"])
def test_anything_else_is_refused_with_the_two_forms(address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"unix:///DIR/link.sock or tcp://HOST:PORT"):
        connect(address, 1.0)
