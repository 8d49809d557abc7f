"""The client finds the control plane of its home, or starts it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpuctl.api.errors import DeadlineExceeded, FailedPrecondition, NotFound, Unauthenticated, Unavailable
from tpuctl.api.home import Home
from tpuctl.api.operations import Operation
from tpuctl.client import connect, running, start, stop


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path))
    monkeypatch.setenv("TPUCTL_PORT", "0")
    monkeypatch.delenv("TPUCTL_TOKEN", raising=False)
    yield Home(tmp_path)
    monkeypatch.delenv("TPUCTL_TOKEN", raising=False)
    stop()


def test_connect_starts_a_control_plane_and_finds_it_again(home: Home) -> None:
    with connect() as first, connect(autostart=False) as second:
        assert first.url == second.url
        assert second.status().home == str(home.path)
    assert stop()
    assert running() is None
    assert not stop()


def test_modules_in_the_users_folder_do_not_get_in_the_way(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "uvicorn.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(folder)
    with connect() as client:
        assert client.status().slices == []


def test_starts_that_race_end_with_one_control_plane(home: Home) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(start().url)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_nothing_is_started_when_that_is_not_wanted(home: Home) -> None:
    with pytest.raises(Unavailable, match="start it with `tpuctl up`"):
        connect(autostart=False)
    assert not home.database.exists()


def test_what_a_killed_control_plane_left_does_not_mislead(home: Home) -> None:
    server = start()
    os.kill(server.pid, 9)
    while running() is not None:
        pass
    assert home.server.exists()
    with connect() as client:
        assert client.status().pid != server.pid


def test_another_program_on_the_old_port_does_not_mislead(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.close()
        url = f"http://127.0.0.1:{1}"
    home.server.write_text(json.dumps({"pid": 1, "started": 1.0, "url": url}))
    home.token.write_text("token")
    assert running() is None


def test_a_wrong_token_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    start()
    monkeypatch.setenv("TPUCTL_TOKEN", "wrong")
    with pytest.raises(Unauthenticated, match="the bearer token is wrong"):
        connect()


def test_a_taken_port_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("TPUCTL_PORT", str(other.getsockname()[1]))
        with pytest.raises(FailedPrecondition, match="is taken; end what uses it"):
            start()


def test_waiting_has_an_end(home: Home) -> None:
    with connect() as client:
        operation = Operation(name="projects/local/locations/europe-west4-a/operations/nope")
        with pytest.raises(DeadlineExceeded, match="it goes on"):
            client.wait(operation, timeout_seconds=-1)
        with pytest.raises(NotFound):
            client.wait(operation)


@pytest.mark.parametrize(
    "written",
    [
        '{"pid": 1, "started": 0, "url": 5}',
        "[]",
        "7",
        "no JSON",
        '{"pid": 1}',
        '{"pid": 1, "started": 0, "url": "ftp://127.0.0.1:1"}',
        '{"pid": 1, "started": 0, "url": "http://127.0.0.1:port"}',
        '{"pid": 1, "started": 0, "url": "http://[::1:1"}',
        '{"pid": 1, "started": 0, "url": "http://127.0.0.1\\n:1"}',
    ],
)
def test_an_odd_server_file_is_no_control_plane(home: Home, written: str) -> None:
    home.make()
    home.token.write_text("of-a-test")
    home.server.write_text(written)
    assert running() is None


def test_a_home_that_is_no_folder_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path / "file")
    home.path.write_text("")
    with pytest.raises(FailedPrecondition, match="file is not a folder; set TPUCTL_HOME to a folder that you can"):
        start(home)


def test_a_home_where_nothing_can_be_written_is_told(home: Home) -> None:
    (home.path / "server.out").mkdir()
    with pytest.raises(FailedPrecondition, match=r"cannot write .*server\.out: is a directory; set TPUCTL_HOME to"):
        start(home)


@pytest.mark.parametrize("token", ["two\nlines", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\udcff"])
def test_a_token_that_cannot_be_sent_is_told(home: Home, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    home.token.write_text("of-a-test")
    home.server.write_text('{"pid": 1, "started": 0, "url": "http://127.0.0.1:1"}')
    monkeypatch.setenv("TPUCTL_TOKEN", token)
    with pytest.raises(Unauthenticated, match="TPUCTL_TOKEN is not a token"):
        running()
