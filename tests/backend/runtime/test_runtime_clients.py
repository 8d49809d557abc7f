"""Who may use the slice, and what is left when they go: nothing."""

from __future__ import annotations

import os
import socket
import struct
import threading

import numpy as np
import pytest

from backend.compiler.program import Program
from backend.errors import FailedPrecondition, TpuError, Unavailable
from backend.link.addresses import connect as open_socket
from backend.link.client import Connection, status
from backend.link.framing import frame
from backend.link.messages import VERSION, Compile, Execute, Hello, Put, Stage

ONES = np.ones(4, "float32")


def test_a_second_driver_is_refused_with_pid_and_job_of_the_first(connect) -> None:
    connect(job="train-7")
    with pytest.raises(FailedPrecondition, match=rf"process {os.getpid()}, job train-7 holds them"):
        connect(job="other")


def test_the_chips_are_free_again_when_the_first_driver_has_gone(connect) -> None:
    connect().link.close()
    connect()


def test_a_driver_waits_for_the_last_launch_of_the_one_before(running, connect) -> None:
    first = connect()
    first.compile(1, "wait")
    first.put(1, ONES)
    first.execute(1, [1], 2)
    running.wait_until(lambda: bool(running.machine.seen))
    first.link.close()
    running.wait_until(lambda: running.chips.occupancy.holder is None)
    running.gate.set()
    connect()
    assert running.hbm_in_use() == 0


def test_what_a_driver_leaves_in_the_queue_is_not_run(running, connect) -> None:
    driver = connect()
    driver.compile(1, "wait")
    driver.put(1, ONES)
    for number in range(5):
        driver.execute(1, [1], 2 + number)
    running.wait_until(lambda: bool(running.machine.seen))
    driver.link.close()
    running.wait_until(lambda: running.chips.occupancy.holder is None)
    running.gate.set()
    connect()
    assert len(running.machine.seen) == 1


def test_a_driver_that_vanishes_in_the_middle_of_a_transfer_leaves_nothing(running, connect) -> None:
    driver = connect()
    driver.put(1, ONES)
    driver.link.send(Stage(2, 1 << 20, bytes(1000)))
    data = frame(Put(2, 3, 0, "device", "float32", [1000], bytes(4000)))
    driver.link._sock.sendall(data[:2000])
    driver.wait(1)
    assert running.hbm_in_use() == 16
    driver.link.close()
    running.wait_until(lambda: running.hbm_in_use() == 0)
    connect()


@pytest.mark.parametrize("garbage", [b"\x05\x00\x00\x00hello", struct.pack("<I", 1 << 31), b"\x01\x00\x00\x00\xc1"])
def test_a_malformed_frame_ends_that_connection_only(running, connect, garbage: bytes) -> None:
    monitor = Connection(running.unix, "monitor", "")
    driver = connect()
    driver.put(1, ONES)
    driver.link._sock.sendall(garbage)
    with pytest.raises(Unavailable):
        driver.read_until(lambda: False)
    running.wait_until(lambda: running.hbm_in_use() == 0)
    assert status(running.directory)["client"] is None
    connect()
    monitor.close()


def test_messages_that_make_no_sense_end_the_connection(running) -> None:
    for message in (
        Stage(1, 4, b"12345"),
        Stage(1, -5, b""),
        Hello(VERSION, "driver", 1, ""),
        Put(1, 1, 0, "device", "object", [1], b""),
        Put(1, 1, 0, "device", "float32", [1 << 62, 0], b""),
    ):
        link = Connection(running.unix, "driver", "")
        link.send(message)
        with pytest.raises(Unavailable):
            link.first(5.0)
        link.close()


def test_whoever_does_not_greet_first_is_cut_off(running) -> None:
    with open_socket(running.unix, 1.0) as sock:
        sock.sendall(frame(Execute(1, 1, [], 1, [], [])))
        assert sock.recv(100) == b""


@pytest.mark.parametrize("token", ["", "wrong", "the toke", "tokén"])
def test_tcp_needs_the_token(running, connect, token: str) -> None:
    with pytest.raises(TpuError, match="token is missing or wrong"):
        connect(running.tcp, token=token)


def test_another_version_of_the_link_is_refused_clearly(running) -> None:
    with open_socket(running.unix, 1.0) as sock:
        sock.sendall(frame(Hello(VERSION + 1, "driver", 1, "")))
        assert b"speaks version" in sock.recv(1000)


def test_status_shows_hbm_holder_and_sessions(running, connect) -> None:
    driver = connect(job="job-1")
    driver.compile(1, "add1")
    driver.put(1, ONES)
    driver.wait(driver.execute(1, [1], 2))
    values = status(running.directory)
    assert values["name"] == "test"
    assert values["client"] == {"pid": os.getpid(), "job": "job-1"}
    assert values["hbmBytesInUse"] == 32
    assert (values["programsRun"], values["deviceSeconds"], values["mxuBusyShare"]) == (1, 0.25, 0.5)
    assert values["sessions"]["job-1"]["programsRun"] == 1


def test_each_core_is_told_of_only_to_those_who_ask(running, connect) -> None:
    driver = connect()
    driver.wait(driver.put(1, ONES))
    values = status(running.directory, cores=True)
    assert [core["hbmBytesInUse"] for core in values["cores"]] == [16] + 7 * [0]
    assert sum(core["hbmBytesLimit"] for core in values["cores"]) == values["hbmBytesLimit"]
    assert "cores" not in status(running.directory)
    monitor = Connection(running.unix, "monitor", "")
    monitor.close()
    assert monitor.welcome.cores == []


def test_a_monitor_is_welcome_while_a_program_runs(running, connect) -> None:
    driver = connect()
    driver.compile(1, "wait")
    driver.put(1, ONES)
    driver.execute(1, [1], 2)
    running.wait_until(lambda: bool(running.machine.seen))
    assert status(running.directory, timeout=2.0)["client"] is not None


def test_a_program_is_compiled_while_another_runs(running, connect) -> None:
    driver = connect()
    driver.compile(1, "wait")
    driver.put(1, ONES)
    driver.execute(1, [1], 2)
    running.wait_until(lambda: bool(running.machine.seen))
    assert driver.compile(2, "add1").name == "add1"


def test_a_module_that_does_not_compile_is_an_answer(connect) -> None:
    assert connect().compile(1, "nonsense").message == "no recipe nonsense"


def test_status_of_a_slice_that_is_not_there_is_unavailable(tmp_path) -> None:
    with pytest.raises(Unavailable, match="no slice runtime answers"):
        status(tmp_path)


def test_a_runtime_that_says_nothing_is_unavailable_after_the_timeout(tmp_path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "link.sock"))
        silent.listen()
        with pytest.raises(Unavailable, match="does not answer"):
            status(tmp_path, timeout=0.2)


def test_what_a_client_that_has_gone_was_compiling_is_not_loaded(running, connect, monkeypatch) -> None:
    compile_, entered, loaded = running.machine.compile, threading.Event(), []

    def slow(module: bytes, options: bytes) -> Program:
        entered.set()
        assert running.gate.wait(10)
        return compile_(module, options)

    monkeypatch.setattr(running.machine, "compile", slow)
    monkeypatch.setattr(running.machine, "load", loaded.append)
    driver = connect()
    driver.link.send(Compile(1, 1, b"add1", b""))
    assert entered.wait(5)
    driver.link.close()
    running.wait_until(lambda: running.chips.occupancy.holder is None)
    running.gate.set()
    connect().compile(1, "no such recipe")
    assert loaded == []
