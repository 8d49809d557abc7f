"""Who waits in jax.distributed.initialize() is seen in the connections and threads of a worker's processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backend.host.address import Address
from backend.host.coordination import come_to_initialize

CALLER = """
import socket, sys
connected = socket.socket(socket.AF_INET6)
connected.connect(("::ffff:127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
connected.recv(1)
"""
NAMED_THREAD = """
import ctypes, sys, threading
def work():
    ctypes.CDLL(None).prctl(15, b"event_engine", 0, 0, 0)  # PR_SET_NAME
    print("named", flush=True)
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def address_of(listening: socket.socket) -> Address:
    return Address("127.0.0.1", listening.getsockname()[1])


def test_those_come_who_hold_a_connection_to_the_coordinator(listener: socket.socket) -> None:
    coordinator = address_of(listener)
    command = [sys.executable, "-c", CALLER, str(coordinator.port)]
    other = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as caller,
        subprocess.Popen(other, stdin=subprocess.PIPE) as idle,
    ):
        try:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"connected\n"
            assert come_to_initialize(coordinator, {0: caller.pid, 1: idle.pid}) == {0}
        finally:
            caller.kill()
            idle.kill()


def test_a_process_that_the_command_has_started_counts(listener: socket.socket) -> None:
    coordinator = address_of(listener)
    shell = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", CALLER, str(coordinator.port)]
    with subprocess.Popen(shell, stdout=subprocess.PIPE) as caller:
        try:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"connected\n"
            assert come_to_initialize(coordinator, {3: caller.pid}) == {3}
        finally:
            connection, _ = listener.accept()
            connection.close()


def test_without_a_coordinator_those_come_who_call_somebody_by_grpc(listener: socket.socket) -> None:
    coordinator = address_of(listener)
    listener.close()
    with subprocess.Popen(
        [sys.executable, "-c", NAMED_THREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as caller:
        try:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"named\n"
            assert come_to_initialize(coordinator, {0: caller.pid, 1: 2**22 + 1}) == {0}
        finally:
            caller.kill()
