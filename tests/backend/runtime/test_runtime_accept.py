"""A slice that runs out of file descriptors takes clients again when it has some."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from backend.errors import TpuError
from backend.link.client import status

LIMIT = 64


def answers(directory: Path) -> bool:
    try:
        return status(directory)["name"] == "s"
    except TpuError:
        return False


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="sets another process's limits")
def test_clients_are_taken_again_after_file_descriptors_ran_out(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    command = [sys.executable, "-m", "backend.runtime", "--directory", str(tmp_path), "--name", "s", "--type", "v3-8"]
    with subprocess.Popen([*command, "--host", "127.0.0.1", "--port", "0"]) as runtime:
        try:
            wait_until(lambda: (tmp_path / "runtime.json").exists())
            process = psutil.Process(runtime.pid)
            process.rlimit(psutil.RLIMIT_NOFILE, (LIMIT, process.rlimit(psutil.RLIMIT_NOFILE)[1]))
            with contextlib.ExitStack() as clients:
                for _ in range(2 * LIMIT):
                    client = clients.enter_context(socket.socket(socket.AF_UNIX))
                    client.settimeout(0.2)
                    with contextlib.suppress(OSError):
                        client.connect(str(tmp_path / "link.sock"))
                assert not answers(tmp_path)
            wait_until(lambda: answers(tmp_path))
        finally:
            runtime.terminate()
