"""The gRPC port of a control plane: it costs nothing until somebody calls, outlives kills, and ends with the rest."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.cloud.tpu_v2")

import grpc
from grpc_client import NODE, PLACE, Caller, Failed
from self_signed import self_signed
from serving import TOKEN, make_plane, serving

from tpuctl.api.errors import FailedPrecondition, InvalidArgument
from tpuctl.api.home import Home
from tpuctl.server import grpc_port, serve
from tpuctl.server.grpc_port import grpc_listener, served
from tpuctl.server.reach import Tls
from tpuctl.server.serve import _listen

Wait = Callable[..., None]
pytestmark = pytest.mark.filterwarnings("default")


def address(home: Home) -> str:
    url: str = json.loads(home.server.read_text())["grpcUrl"]
    return url.removeprefix("http://")


def caller(plane: Any, channel: grpc.Channel) -> Caller:
    return Caller(channel, plane.home.token.read_text().strip())


def is_loaded(home: Home) -> bool:
    pid = json.loads(home.server.read_text())["pid"]
    return "cygrpc" in Path(f"/proc/{pid}/maps").read_text()


def test_it_is_loaded_when_it_is_first_called_and_all_who_call_then_are_answered(plane_process: Any) -> None:
    plane_process.start()
    assert not is_loaded(plane_process.home)
    started = threading.Barrier(20)

    def call(_: int) -> int:
        option = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(address(plane_process.home), option) as channel:
            started.wait(10)
            return sum(len(caller(plane_process, channel).tpu("ListNodes", parent=PLACE).nodes) for _ in range(3))

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(call, range(20))) == [0] * 20
    assert is_loaded(plane_process.home)


def test_what_was_begun_over_grpc_outlives_a_kill(plane_process: Any, wait_until: Wait) -> None:
    plane_process.start()
    with grpc.insecure_channel(address(plane_process.home)) as channel:
        names = [
            caller(plane_process, channel).tpu("CreateNode", parent=PLACE, node_id=name, node=NODE).name
            for name in ("a", "b", "c")
        ]
        plane_process.kill()
        with pytest.raises(Failed) as error:
            caller(plane_process, channel).tpu("ListNodes", parent=PLACE)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    plane_process.start()
    with grpc.insecure_channel(address(plane_process.home)) as channel:
        again = caller(plane_process, channel)
        for name in names:
            done = again.operations("WaitOperation", name=name)
            assert (done.done, done.error.code) == (True, 0)
            assert done.response.type_url == "type.googleapis.com/google.cloud.tpu.v2.Node"
        assert [node.state.name for node in again.tpu("ListNodes", parent=PLACE).nodes] == ["READY"] * 3


def test_it_ends_while_it_has_clients(plane_process: Any) -> None:
    plane_process.start()
    with grpc.insecure_channel(address(plane_process.home)) as channel:
        client = caller(plane_process, channel)
        client.tpu("ListNodes", parent=PLACE)
        assert plane_process.terminate() == 0
    assert not plane_process.home.server.exists()


def test_it_ends_right_after_it_was_first_called(plane_process: Any) -> None:
    plane_process.start()
    host, port = address(plane_process.home).split(":")
    with socket.create_connection((host, int(port))):
        assert plane_process.terminate() == 0


def test_what_is_not_grpc_is_no_harm(plane_process: Any) -> None:
    plane_process.start()
    host, port = address(plane_process.home).split(":")
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 1000):
        with socket.create_connection((host, int(port)), 10) as other:
            other.sendall(said)
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        assert list(caller(plane_process, channel).tpu("ListNodes", parent=PLACE).nodes) == []


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secured(tmp_path: Path, tls: Tls) -> Iterator[str]:
    plane = make_plane(tmp_path)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with serving(plane, lambda: served(plane, plane.access.caller, listener, tls)):
        yield f"127.0.0.1:{port}"


def test_over_tls_the_channel_brings_the_token(secured: str, tls: Tls) -> None:
    trusting = grpc.ssl_channel_credentials(tls.certificate.read_bytes())
    known = grpc.composite_channel_credentials(trusting, grpc.access_token_call_credentials(TOKEN))
    with grpc.secure_channel(secured, known) as channel:
        assert list(Caller(channel, None).tpu("ListNodes", parent=PLACE).nodes) == []
    with grpc.secure_channel(secured, trusting) as channel, pytest.raises(Failed) as error:
        Caller(channel, None).tpu("ListNodes", parent=PLACE)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_without_tls_nobody_reaches_it_where_it_is_served_over_tls(secured: str) -> None:
    with grpc.insecure_channel(secured) as channel, pytest.raises(Failed) as error:
        Caller(channel, TOKEN).tpu("ListNodes", within=5, parent=PLACE)
    assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_its_port_is_the_next_one_unless_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as http:
        port = http.getsockname()[1]
        with grpc_listener(_listen, "127.0.0.1", port) as listener:
            assert listener is not None
            near = listener.getsockname()[1]
            with grpc_listener(_listen, "127.0.0.1", port) as other:
                assert other is not None
                assert other.getsockname()[1] not in (port, near)
    assert near == port + 1 or "gRPC gets another port" in caplog.text


def test_a_port_that_was_chosen_and_is_taken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("TPUCTL_GRPC_PORT", str(port))
        with pytest.raises(FailedPrecondition, match=rf"port {port} on 127.0.0.1 is taken; .*--grpc-port PORT"):
            serve(port=0, home=Home(tmp_path))
    monkeypatch.setenv("TPUCTL_GRPC_PORT", "many")
    with pytest.raises(InvalidArgument, match="TPUCTL_GRPC_PORT is 'many': it must be a port number"):
        serve(port=0, home=Home(tmp_path))


def test_without_grpcio_there_is_only_http_and_who_wants_grpc_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(grpc_port, "NEEDED", ("grpc", "no_such_module.inside"))
    assert not grpc_port.is_installed()
    with grpc_listener(_listen, "127.0.0.1", 0) as listener:
        assert listener is None
    for wanted in ({"grpc": True}, {"grpc_port": 0}):
        with pytest.raises(FailedPrecondition, match=r"pip install 'tpuctl\[grpc\]'"):
            serve(port=0, home=Home(tmp_path), **wanted)
