"""The slice runtime as a process: how it starts, what it leaves in its directory, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from backend.link.client import status

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "token").write_text("secret")
    processes = []

    def start_runtime(kind: str = "v3-8", port: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "backend.runtime", "--directory", str(tmp_path), "--name", "demo"]
        processes.append(
            subprocess.Popen([*command, "--type", kind, "--port", str(port)], stderr=subprocess.PIPE, text=True)
        )
        return processes[-1]

    yield start_runtime
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(path: Path) -> dict:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} does not come"
        time.sleep(0.01)
    return json.loads(path.read_text())


def test_it_announces_itself_when_it_answers(start: Start, tmp_path: Path) -> None:
    process = start()
    told = wait_for(tmp_path / "runtime.json")
    assert told["pid"] == process.pid
    assert told["started"] == psutil.Process(process.pid).create_time()
    assert (told["name"], told["type"]) == ("demo", "v3-8")
    assert status(tmp_path)["name"] == "demo"
    socket.create_connection((told["host"], told["port"])).close()


def test_sigterm_ends_it_and_takes_its_files_away(start: Start, tmp_path: Path) -> None:
    process = start()
    wait_for(tmp_path / "runtime.json")
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 0
    assert not (tmp_path / "runtime.json").exists()
    assert not (tmp_path / "link.sock").exists()


def test_after_kill_minus_nine_it_starts_in_the_same_directory(start: Start, tmp_path: Path) -> None:
    first = start()
    wait_for(tmp_path / "runtime.json")
    first.kill()
    first.wait()
    (tmp_path / "runtime.json").unlink()
    second = start()
    assert wait_for(tmp_path / "runtime.json")["pid"] == second.pid


def test_a_taken_port_is_exit_status_4_and_one_line(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(port=taken.getsockname()[1])
        _, err = process.communicate(timeout=10)
    assert process.returncode == 4
    assert len(err.splitlines()) == 1
    assert "Address already in use" in err
    assert json.loads((tmp_path / "runtime-error.json").read_text())["message"] == err.strip()


def test_an_unknown_type_or_a_missing_token_is_exit_status_2(start: Start, tmp_path: Path) -> None:
    process = start(kind="v3-9")
    _, err = process.communicate(timeout=10)
    assert (process.returncode, "v3-8" in err) == (2, True)
    (tmp_path / "token").unlink()
    process = start()
    _, err = process.communicate(timeout=10)
    assert (process.returncode, "token" in err) == (2, True)


def test_its_files_are_for_its_owner_and_its_log_is_json(start: Start, tmp_path: Path) -> None:
    start()
    wait_for(tmp_path / "runtime.json")
    for name in ("link.sock", "runtime.json", "runtime.log", "runtime.crash"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o077 == 0, name
    lines = [json.loads(line) for line in (tmp_path / "runtime.log").read_text().splitlines()]
    assert lines[0]["message"] == "slice is up"


def test_a_client_that_says_nothing_does_not_keep_others_out(start: Start, tmp_path: Path) -> None:
    start()
    told = wait_for(tmp_path / "runtime.json")
    idle = [socket.create_connection((told["host"], told["port"])) for _ in range(20)]
    assert status(tmp_path)["client"] is None
    for sock in idle:
        sock.close()


def test_it_imports_no_jax_before_it_answers() -> None:
    code = "import sys, backend.runtime.process; print({'jax', 'jaxlib'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_on_another_system_than_linux_it_says_so_in_one_line() -> None:
    code = "import runpy, sys; sys.platform = 'darwin'; runpy.run_module('backend.runtime', run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == ("the slice runtime needs Linux (this is darwin); use a Linux machine, a container or WSL\n")
