"""The REST front answers as Cloud TPU's does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from serving import TOKEN, serving

from tpuctl.control.plane import ControlPlane

ZONE = "/v2/projects/local/locations/europe-west4-a"
JOBS = "/tpuctl/v1/projects/local/jobs"
JOB = {"command": ["true"], "workingDirectory": "/", "acceleratorType": "v3-8"}


Make = Callable[[str], Any]


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}])
@pytest.mark.parametrize("path", [f"{ZONE}/nodes", "/tpuctl/v1/status", "/nowhere"])
def test_nothing_is_answered_without_the_token(plane: ControlPlane, header: dict[str, str], path: str) -> None:
    with serving(plane) as url:
        answer = httpx.get(url + path, headers=header)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (401, 401, "UNAUTHENTICATED")
    assert str(plane.home.token) in error["message"]
    assert answer.headers["www-authenticate"] == "Bearer"


def test_create_answers_with_an_operation_that_ends_with_the_node(http: httpx.Client, make: Make) -> None:
    operation = make("a")
    assert operation["name"].startswith("projects/local/locations/europe-west4-a/operations/operation-")
    assert operation["metadata"]["target"] == "projects/local/locations/europe-west4-a/nodes/a"
    assert operation["metadata"]["verb"] == "create"
    assert operation["metadata"]["endTime"].endswith("Z")
    assert operation["response"]["@type"] == "type.googleapis.com/google.cloud.tpu.v2.Node"
    node = http.get(f"{ZONE}/nodes/a").json()
    assert node["name"] == "projects/local/locations/europe-west4-a/nodes/a"
    assert node["state"] == "READY"
    assert node["id"].isdigit()
    assert node["apiVersion"] == "V2"


def test_an_operation_under_way_says_so(http: httpx.Client) -> None:
    operation = http.post(f"{ZONE}/nodes?nodeId=a", json={"acceleratorType": "v3-8"}).json()
    assert operation["done"] is False
    assert "response" not in operation
    assert "error" not in operation


def test_delete_ends_with_empty(http: httpx.Client, make: Make, wait_until: Callable[..., None]) -> None:
    make("a")
    operation = http.delete(f"{ZONE}/nodes/a").json()
    wait_until(lambda: http.get("/v2/" + operation["name"]).json()["done"])
    done = http.get("/v2/" + operation["name"]).json()
    assert done["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert http.get(f"{ZONE}/nodes/a").status_code == 404


def test_a_missing_node_is_told_as_cloud_tpu_tells_it(http: httpx.Client) -> None:
    answer = http.get(f"{ZONE}/nodes/nope")
    assert answer.status_code == 404
    assert answer.json()["error"]["status"] == "NOT_FOUND"
    name = "projects/local/locations/europe-west4-a/nodes/nope"
    assert answer.json()["error"]["message"] == f"Resource '{name}' was not found"
    assert answer.json()["error"]["details"] == [
        {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": name}
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", f"{ZONE}/nodes?nodeId=a", "{", 400, "not JSON"),
        ("POST", f"{ZONE}/nodes?nodeId=a", "[]", 400, "Root element must be a message."),
        (
            "POST",
            f"{ZONE}/nodes?nodeId=a",
            '{"acceleratorType": 3}',
            400,
            "Invalid value at 'node.accelerator_type' (TYPE_STRING), 3",
        ),
        ("POST", f"{ZONE}/nodes?nodeId=a", "{}", 400, "acceleratorType is required"),
        ("POST", f"{ZONE}/nodes?nodeId=A", '{"acceleratorType": "v3-8"}', 400, "node name 'A' is not valid"),
        ("POST", f"{ZONE}/nodes?nodeId=a&x=1", "{}", 400, 'Unknown name "x": Cannot bind query parameter.'),
        ("POST", f"{ZONE}/nodes?nodeId=a", '{"acceleratorType": "v9-8"}', 400, "Did you mean v"),
        ("GET", "/v2/projects/local/locations/mars/nodes", None, 403, "Location mars is not found"),
        ("GET", f"{ZONE}/nodes?pageSize=x", None, 400, "pageSize: 'x' is not valid"),
        ("PUT", f"{ZONE}/nodes/a", None, 501, "not a method"),
        ("GET", "/v2/nothing", None, 404, "not a path"),
        ("GET", f"{ZONE}/operations/nope", None, 404, "operations/nope' was not found"),
        ("GET", f"{ZONE}/acceleratorTypes/v9-8", None, 404, "acceleratorTypes/v9-8' was not found"),
        ("GET", f"{JOBS}/nope", None, 404, "jobs/nope' was not found"),
        ("GET", f"{JOBS}/nope:watch", None, 404, "jobs/nope' was not found"),
        ("GET", f"{JOBS}/nope/logs?offset=-1", None, 404, "jobs/nope' was not found"),
        ("POST", f"{ZONE}/nodes?nodeId=a", "[" * 100_000, 400, "not JSON"),
        (
            "POST",
            JOBS,
            json.dumps(JOB | {"workingDirectory": "/" + "x" * 5000}),
            400,
            "not an absolute path of a folder",
        ),
        ("POST", JOBS, json.dumps(JOB | {"environment": {"A": "b\0c"}}), 400, "is not a variable"),
        ("POST", JOBS, json.dumps(JOB | {"environment": {"A=B": "c"}}), 400, "is not a variable"),
        ("POST", JOBS, "{}", 400, "command: Field required"),
        ("POST", JOBS, '{"command": [], "workingDirectory": "/"}', 400, "command: List should have at least 1"),
    ],
)
def test_bad_requests_are_told_in_googles_form(
    http: httpx.Client, method: str, path: str, body: str | None, status: int, text: str
) -> None:
    answer = http.request(method, path, content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, status)
    assert text in error["message"]


def test_a_body_too_large_is_refused(http: httpx.Client) -> None:
    answer = http.post(f"{ZONE}/nodes?nodeId=a", content=b" " * (9 << 20))
    assert answer.status_code == 400
    assert "larger than" in answer.json()["error"]["message"]


def test_lists_come_a_page_at_a_time(http: httpx.Client, make: Make) -> None:
    for name in ("a", "b", "c"):
        make(name)
    first = http.get(f"{ZONE}/nodes?pageSize=2").json()
    second = http.get(f"{ZONE}/nodes?pageSize=2&pageToken={first['nextPageToken']}").json()
    assert [node["name"][-1] for node in first["nodes"] + second["nodes"]] == ["a", "b", "c"]
    assert "nextPageToken" not in second


def test_a_dash_lists_all_zones(http: httpx.Client, make: Make) -> None:
    make("a")
    assert len(http.get("/v2/projects/local/locations/-/nodes").json()["nodes"]) == 1
    assert http.get("/v2/projects/other/locations/-/nodes").json() == {"nodes": []}


def test_locations_and_types_can_be_listed(http: httpx.Client) -> None:
    locations = http.get("/v2/projects/local/locations").json()["locations"]
    assert {"name": "projects/local/locations/europe-west4-a", "locationId": "europe-west4-a"} in locations
    types = http.get(f"{ZONE}/acceleratorTypes").json()["acceleratorTypes"]
    assert {
        "name": "projects/local/locations/europe-west4-a/acceleratorTypes/v3-8",
        "type": "v3-8",
        "acceleratorConfigs": [{"type": "V3", "topology": "2x2"}],
    } in types
    assert http.get(f"{ZONE}/acceleratorTypes/v3-8").json()["type"] == "v3-8"


def test_finished_operations_can_be_deleted(http: httpx.Client, make: Make) -> None:
    operation = make("a")
    assert http.delete("/v2/" + operation["name"]).json() == {}
    assert http.get("/v2/" + operation["name"]).status_code == 404


def test_update_honours_its_mask_in_both_spellings(http: httpx.Client, make: Make) -> None:
    make("a")
    body = {"labels": {"a": "b"}, "networkConfig": {"enableExternalIps": True}, "description": "x"}
    http.patch(f"{ZONE}/nodes/a?updateMask=labels", json=body)
    assert "description" not in http.get(f"{ZONE}/nodes/a").json()
    answer = http.patch(f"{ZONE}/nodes/a?updateMask=network_config.enable_external_ips", json=body)
    assert answer.json()["response"]["name"].endswith("/nodes/a")
    node = http.get(f"{ZONE}/nodes/a").json()
    assert node["labels"] == {"a": "b"}
    assert node["networkConfig"]["enableExternalIps"] is True


def test_status_shows_slices_and_jobs(http: httpx.Client, make: Make) -> None:
    make("a")
    status = http.get("/tpuctl/v1/status").json()
    (shown,) = status["slices"]
    assert (shown["name"], shown["state"], shown["chips"], shown["cores"]) == ("a", "READY", 4, 8)
    assert status["jobs"] == []
    assert status["project"] == "local"


def test_a_slice_says_how_to_attach(http: httpx.Client, make: Make) -> None:
    make("a")
    shown = http.get("/tpuctl/v1/projects/local/locations/europe-west4-a/slices/a").json()
    assert shown["environment"]["TPUCTL_SLICE"] == f"unix://{shown['directory']}/link.sock"
    assert shown["environmentTcp"]["TPUCTL_SLICE"] == f"tcp://{shown['endpoint']}"
    assert len(shown["environmentTcp"]["TPUCTL_SLICE_TOKEN"]) > 30


def test_an_unexpected_failure_is_told_as_internal(
    http: httpx.Client, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(plane, "page_of_nodes", fail)
    answer = http.get(f"{ZONE}/nodes")
    assert (answer.status_code, answer.json()["error"]["status"]) == (500, "INTERNAL")
