"""The API over gRPC: names, errors, callers, deadlines; one control plane in this process for all tests."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from serving import TOKEN, clean_up, make_plane, serving

pytest.importorskip("grpc")
pytest.importorskip("google.cloud.tpu_v2")

import grpc
from google.cloud.tpu_v2 import types
from google.cloud.tpu_v2alpha1 import types as alpha
from google.longrunning import operations_pb2
from google.rpc import error_details_pb2
from grpc_client import NODE, PLACE, TPU, Caller, Failed, status_of, told

from tpuctl.api.access import Role, Token
from tpuctl.control import nodes
from tpuctl.control.plane import ControlPlane
from tpuctl.server.grpc_port import served

Wait = Callable[..., None]
pytestmark = pytest.mark.filterwarnings("default")


@dataclasses.dataclass
class Served:
    plane: ControlPlane
    address: str
    http: httpx.Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    plane = make_plane(tmp_path_factory.mktemp("home"))
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    with (
        serving(plane, lambda: served(plane, plane.access.caller, listener)) as url,
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}) as http,
    ):
        yield Served(plane, address, http)
    clean_up(plane)


@pytest.fixture
def channel(server: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address, [("grpc.max_receive_message_length", -1)]) as made:
        yield made


@pytest.fixture
def caller(channel: grpc.Channel) -> Caller:
    return Caller(channel, TOKEN)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("google.cloud.tpu.v1.Tpu/UpdateNode", "Method google.cloud.tpu.v1.Tpu.UpdateNode is not implemented; v2, "),
        ("google.cloud.tpu.v2.Tpu/Frobnicate", "Method google.cloud.tpu.v2.Tpu.Frobnicate is not a method of this"),
        ("google.cloud.tpu.v2alpha1.Tpu/GetMaintenanceInfo", "GetMaintenanceInfo has no message"),
        ("some.Other/Thing", "Method some.Other.Thing is not a method of this server"),
    ],
)
def test_a_method_that_is_not_there_is_unimplemented_by_its_name(caller: Caller, path: str, text: str) -> None:
    with pytest.raises(Failed) as error:
        caller.send(f"/{path}", b"").result()
    assert told(error.value)[0] == "UNIMPLEMENTED"
    assert text in told(error.value)[1]


@pytest.mark.parametrize("name", ["", "nodes/a", f"{PLACE}/nodes/", f"{PLACE}/nodes/a/b", f"{PLACE}/queuedResources/a"])
def test_a_name_of_another_form_is_refused_with_the_field(caller: Caller, name: str) -> None:
    with pytest.raises(Failed) as error:
        caller.tpu("GetNode", name=name)
    text = f"name: {name!r} is not of the form projects/*/locations/*/nodes/*"
    assert told(error.value) == ("INVALID_ARGUMENT", text)
    (detail,) = status_of(error.value).details
    found = error_details_pb2.BadRequest()
    assert detail.Unpack(found)
    assert [violation.field for violation in found.field_violations] == ["name"]


def bad_requests() -> list[tuple[str, bytes, str]]:
    node = types.Node(accelerator_type="v4-8", runtime_version="x")
    strange = types.Node(accelerator_config={"type_": 4711, "topology": "2x2x1"})
    late = types.Node.pb(types.Node(accelerator_type="v4-8"))
    late.create_time.seconds = 1 << 60

    def create(made: Any) -> bytes:
        return types.CreateNodeRequest.serialize(types.CreateNodeRequest(parent=PLACE, node_id="bad", node=made))

    mask = types.UpdateNodeRequest(node=types.Node(name=f"{PLACE}/nodes/a"), update_mask={"paths": ["No_Such,Path"]})
    spec = types.QueuedResource.Tpu.NodeSpec(parent=PLACE, node_id="bad", node=node)
    policy = types.QueuedResource.QueueingPolicy(valid_until_duration={"seconds": -5})
    queued = types.QueuedResource(tpu={"node_spec": [spec]}, queueing_policy=policy)
    asked = types.CreateQueuedResourceRequest(parent=PLACE, queued_resource_id="bad", queued_resource=queued)
    page = types.ListNodesRequest(parent=PLACE, page_size=-1)
    return [
        ("CreateNode", b"\xff\xff\xff", "is not a google.cloud.tpu.v2.CreateNodeRequest"),
        ("CreateNode", create(strange), "type"),
        ("CreateNode", create(types.Node.wrap(late)), "not valid"),
        ("CreateNode", create(types.Node(accelerator_type="v99-1")), "v99-1"),
        ("UpdateNode", types.UpdateNodeRequest.serialize(mask), ""),
        ("CreateQueuedResource", types.CreateQueuedResourceRequest.serialize(asked), ""),
        ("ListNodes", types.ListNodesRequest.serialize(page), "pageSize"),
    ]


@pytest.mark.parametrize(("rpc", "data", "text"), bad_requests(), ids=range(7))
def test_a_bad_request_is_refused_and_changes_nothing(
    server: Served, caller: Caller, rpc: str, data: bytes, text: str
) -> None:
    before = server.plane.store.version
    with pytest.raises(Failed) as error:
        caller.send(f"/{TPU}/{rpc}", data).result()
    code, message = told(error.value)
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND")
    assert text in message
    assert server.plane.store.version == before


def test_fields_that_nobody_knows_are_ignored(caller: Caller) -> None:
    request = types.ListNodesRequest.serialize(types.ListNodesRequest(parent=PLACE))
    reply = types.ListNodesResponse.deserialize(caller.send(f"/{TPU}/ListNodes", request + b"\xa2\x3e\x01x").result())
    assert list(reply.nodes) == []


def test_big_messages_pass_and_bigger_ones_are_refused(caller: Caller, wait_until: Wait) -> None:
    wanted = NODE | {"metadata": {"big": "x" * (5 << 20)}}
    made = caller.tpu("CreateNode", parent=PLACE, node_id="big", node=wanted)
    wait_until(lambda: caller.operations("GetOperation", name=made.name).done)
    assert len(caller.tpu("GetNode", name=f"{PLACE}/nodes/big").metadata["big"]) == 5 << 20
    with pytest.raises(Failed) as error:
        caller.tpu("CreateNode", parent=PLACE, node_id="bigger", node=NODE | {"metadata": {"big": "x" * (9 << 20)}})
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    caller.tpu("DeleteNode", name=f"{PLACE}/nodes/big")


def test_an_error_of_any_size_reaches_its_caller(caller: Caller) -> None:
    with pytest.raises(Failed) as error:
        caller.tpu("GetNode", name="é" * 50_000)
    code, message = told(error.value)
    assert (code, message[-1]) == ("INVALID_ARGUMENT", "…")
    assert status_of(error.value).message == message


def test_errors_carry_their_details(caller: Caller) -> None:
    with pytest.raises(Failed) as error:
        caller.tpu("GetNode", name=f"{PLACE}/nodes/missing")
    assert told(error.value) == ("NOT_FOUND", f"Resource '{PLACE}/nodes/missing' was not found")
    status, found = status_of(error.value), error_details_pb2.ResourceInfo()
    assert (status.code, status.details[0].Unpack(found)) == (5, True)
    assert found.resource_name == f"{PLACE}/nodes/missing"


def test_who_has_no_token_is_not_known(channel: grpc.Channel) -> None:
    for token, text in ((None, "a bearer token is missing"), ("wrong", "the bearer token is wrong")):
        with pytest.raises(Failed) as error:
            Caller(channel, token).tpu("ListNodes", parent=PLACE)
        assert told(error.value)[0] == "UNAUTHENTICATED"
        assert text in told(error.value)[1]


def test_a_viewer_looks_but_changes_nothing(server: Served, channel: grpc.Channel) -> None:
    made = server.plane.access.create(Token(principal="ada", roles={"p": Role.VIEWER}))
    ada = Caller(channel, made.token)
    place = PLACE.replace("local", "p")
    assert list(ada.tpu("ListNodes", parent=place).nodes) == []
    for parent in (place, PLACE):
        with pytest.raises(Failed) as error:
            ada.tpu("CreateNode", parent=parent, node_id="a", node=NODE)
        denied = (
            f"Permission 'tpu.nodes.create' denied on resource '//tpu.googleapis.com/{parent}' (or it may not exist)."
        )
        assert told(error.value) == ("PERMISSION_DENIED", denied)
        found = error_details_pb2.ErrorInfo()
        assert status_of(error.value).details[0].Unpack(found)
        assert found.reason == "IAM_PERMISSION_DENIED"
    with pytest.raises(Failed) as error:
        ada.location(PLACE)
    assert told(error.value)[0] == "PERMISSION_DENIED"


def test_an_operation_keeps_the_types_of_the_version_that_it_began_in(
    server: Served, caller: Caller, wait_until: Wait
) -> None:
    place = PLACE.replace("local", "versions")
    request = alpha.CreateNodeRequest(parent=place, node_id="a", node=alpha.Node(**NODE))
    data = caller.send(f"/{TPU.replace('v2', 'v2alpha1')}/CreateNode", alpha.CreateNodeRequest.serialize(request))
    first = operations_pb2.Operation.FromString(data.result())
    wait_until(lambda: caller.operations("GetOperation", name=first.name).done)
    second = caller.tpu("DeleteNode", name=f"{place}/nodes/a")
    done = caller.operations("WaitOperation", name=second.name, timeout={"seconds": 10})
    listed = {one.name: one for one in caller.operations("ListOperations", name=place).operations}
    assert listed[second.name] == done
    assert done.response.type_url == "type.googleapis.com/google.protobuf.Empty"
    assert listed[first.name].response.type_url == "type.googleapis.com/google.cloud.tpu.v2alpha1.Node"
    made = alpha.Node.deserialize(listed[first.name].response.value)
    assert (made.name, made.state.name) == (f"{place}/nodes/a", "READY")
    polled = server.http.get(f"/v2/{first.name}").json()
    assert polled["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.Node"


def test_the_same_request_is_done_once(caller: Caller) -> None:
    asked = alpha.CreateNodeRequest(
        parent=PLACE.replace("local", "once"), node_id="a", node=alpha.Node(**NODE), request_id="one"
    )
    path, data = f"/{TPU.replace('v2', 'v2alpha1')}/CreateNode", alpha.CreateNodeRequest.serialize(asked)
    first, again = (operations_pb2.Operation.FromString(caller.send(path, data).result()) for _ in range(2))
    assert first.name == again.name


def test_a_fault_of_the_api_strikes_over_grpc_too(server: Served, caller: Caller) -> None:
    added = server.http.post("/tpuctl/v1/faults", json={"kind": "quota", "count": 1}).json()
    with pytest.raises(Failed) as error:
        caller.tpu("CreateNode", parent=PLACE, node_id="quota", node=NODE)
    assert told(error.value)[0] == "RESOURCE_EXHAUSTED"
    found = error_details_pb2.QuotaFailure()
    assert status_of(error.value).details[0].Unpack(found)
    assert "Quota limit" in told(error.value)[1]
    server.http.delete(f"/tpuctl/v1/faults/{added['id']}")


@pytest.fixture
def looks(
    server: Served, caller: Caller, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[float]]]:
    """An operation that does not end, and when it was looked at."""
    monkeypatch.setenv("FAKE_RUNTIME", "hang")
    name = caller.tpu("CreateNode", parent=PLACE, node_id="hangs", node=NODE).name
    seen: list[float] = []
    get = server.plane.get_operation
    monkeypatch.setattr(server.plane, "get_operation", lambda *place: seen.append(time.monotonic()) or get(*place))
    yield name, seen
    caller.operations("CancelOperation", name=name)
    wait_until(lambda: caller.operations("GetOperation", name=name).done)


def has_stopped(seen: list[float]) -> bool:
    return time.monotonic() - seen[-1] > 0.3


def test_a_deadline_ends_a_wait_on_both_sides(caller: Caller, looks: tuple[str, list[float]], wait_until: Wait) -> None:
    name, seen = looks
    with pytest.raises(Failed) as error:
        caller.operations("WaitOperation", within=0.3, name=name)
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: has_stopped(seen), 5)


def test_a_wait_that_is_cancelled_ends_on_both_sides(
    caller: Caller, looks: tuple[str, list[float]], wait_until: Wait
) -> None:
    name, seen = looks
    request = operations_pb2.WaitOperationRequest(name=name)
    call = caller.send("/google.longrunning.Operations/WaitOperation", request.SerializeToString(), within=None)
    wait_until(lambda: len(seen) > 2)
    assert call.cancel()
    wait_until(lambda: has_stopped(seen), 5)


def test_a_wait_ends_when_its_own_time_is_over(caller: Caller, looks: tuple[str, list[float]]) -> None:
    done = caller.operations("WaitOperation", name=looks[0], timeout={"nanos": 100_000_000})
    assert (done.name, done.done) == (looks[0], False)


def test_what_fails_is_told_as_a_bug_without_its_trace(
    server: Served, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "find", lambda *_: 1 / 0)
    with pytest.raises(Failed) as error:
        caller.tpu("GetNode", name=f"{PLACE}/nodes/a")
    text = "ZeroDivisionError: division by zero (this is a bug; the server log has its trace)"
    assert told(error.value) == ("INTERNAL", text)


@pytest.mark.parametrize(
    ("fault", "code", "said", "detail"),
    [
        ({"kind": "unavailable", "method": "nodes.create"}, "UNAVAILABLE", "currently unavailable", None),
        ({"kind": "quota"}, "RESOURCE_EXHAUSTED", "Quota limit", error_details_pb2.QuotaFailure),
        (
            {"kind": "rate-limit", "limit": 0},
            "RESOURCE_EXHAUSTED",
            "per minute",
            error_details_pb2.ErrorInfo,
        ),
        ({"kind": "conflict"}, "ALREADY_EXISTS", "already exists", None),
    ],
)
def test_faults_strike_over_grpc_as_over_http(
    server: Served, caller: Caller, fault: dict[str, Any], code: str, said: str, detail: Any
) -> None:
    assert server.http.post("/tpuctl/v1/faults", json={"count": 1} | fault).status_code == 200
    try:
        with pytest.raises(Failed) as raised:
            caller.tpu("CreateNode", parent=PLACE, node_id=f"struck-{fault['kind']}", node=NODE)
    finally:
        server.http.delete("/tpuctl/v1/faults")
    error: Any = raised.value
    assert error.code().name == code
    assert said in error.details()
    if detail is not None:
        assert any(one.Is(detail.DESCRIPTOR) for one in status_of(error).details)
