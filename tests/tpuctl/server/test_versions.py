"""One node, one queue, seen through every version of the API."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from serving import client_of, make_plane

from tpuctl.server.methods import METHODS, VERSIONS

NODE = {"acceleratorType": "v4-8", "runtimeVersion": "v2-alpha"}
TYPE = "type.googleapis.com/google.cloud.tpu"
Wait = Callable[..., None]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One control plane for all tests here; each has a project of its own."""
    plane = make_plane(tmp_path_factory.mktemp("home"))
    yield from client_of(plane)


@pytest.fixture
def place() -> str:
    return f"projects/p{next(NUMBERS)}/locations/us-central2-b"


@pytest.fixture
def finish(http: httpx.Client, wait_until: Wait) -> Callable[..., Any]:
    """Wait for an operation in a version; gives it as it ended."""

    def wait(operation: Any, version: str = "v2") -> Any:
        path = f"/{version}/{operation['name']}"
        wait_until(lambda: http.get(path).json()["done"])
        return http.get(path).json()

    return wait


def queued(node: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"tpu": {"nodeSpec": {"node": NODE | node, **spec}}}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_operation_has_the_types_of_the_version_that_is_polled(
    http: httpx.Client, place: str, finish: Callable[..., Any], version: str
) -> None:
    made = http.post(f"/v2/{place}/nodes?nodeId=a", json=NODE).json()
    done = finish(made, version)
    assert done["metadata"]["@type"] == f"{TYPE}.{version}.OperationMetadata"
    assert done["metadata"]["apiVersion"] == version
    assert done["response"]["@type"] == f"{TYPE}.{version}.Node"
    assert http.get(f"/{version}/{place}/operations").json()["operations"] == [done]
    deleted = finish(http.delete(f"/{version}/{place}/nodes/a").json(), version)
    legacy = version.startswith("v1")
    assert deleted["response"]["@type"] == (
        f"{TYPE}.{version}.Node" if legacy else "type.googleapis.com/google.protobuf.Empty"
    )


def test_the_first_version_has_its_own_form_of_a_node(
    http: httpx.Client, place: str, finish: Callable[..., Any]
) -> None:
    body = NODE | {"serviceAccount": {"email": "me@x"}, "tags": ["t"], "schedulingConfig": {"spot": True}}
    finish(http.post(f"/v2/{place}/nodes?nodeId=a", json=body).json())
    (node,) = http.get(f"/v1/{place}/nodes").json()["nodes"]
    assert (node["serviceAccount"], node["tensorflowVersion"], node["port"]) == ("me@x", "v2-alpha", "8470")
    assert node["ipAddress"] == node["networkEndpoints"][0]["ipAddress"]
    assert not node.keys() & {"id", "tags", "runtimeVersion", "networkConfig", "metadata"}
    assert node["schedulingConfig"] == {}


def test_a_node_of_the_first_version_can_be_reimaged(
    http: httpx.Client, place: str, finish: Callable[..., Any]
) -> None:
    body = {"acceleratorType": "v4-8", "tensorflowVersion": "2.12.0", "network": "mine", "modelName": "m"}
    finish(http.post(f"/v1alpha1/{place}/nodes?nodeId=a", json=body).json(), "v1alpha1")
    shown = http.get(f"/v2/{place}/nodes/a").json()
    assert (shown["runtimeVersion"], shown["networkConfig"]["network"]) == ("2.12.0", "mine")
    assert shown["apiVersion"] == "V1_ALPHA1"
    done = finish(http.post(f"/v1/{place}/nodes/a:reimage", json={"tensorflow_version": "nightly"}).json(), "v1")
    assert (done["response"]["tensorflowVersion"], done["response"]["state"]) == ("nightly", "READY")


def test_fields_of_another_version_are_refused_and_not_shown(
    http: httpx.Client, place: str, finish: Callable[..., Any]
) -> None:
    body = NODE | {"autocheckpoint_enabled": True, "schedulingConfig": {"provisioningModel": 1, "reserved": None}}
    answer = http.post(f"/v2/{place}/nodes?nodeId=a", json=body)
    assert answer.status_code == 400
    texts = [
        "Invalid JSON payload received. Unknown name \"autocheckpoint_enabled\" at 'node': Cannot find field.",
        "Invalid JSON payload received. Unknown name \"provisioningModel\" at 'node.scheduling_config': "
        "Cannot find field.",
    ]
    assert answer.json()["error"]["message"] == "\n".join(texts)
    (detail,) = answer.json()["error"]["details"]
    assert [found["description"] for found in detail["fieldViolations"]] == texts
    finish(http.post(f"/v2alpha1/{place}/nodes?nodeId=a", json=body).json(), "v2alpha1")
    alpha = http.get(f"/v2alpha1/{place}/nodes/a").json()
    assert (alpha["autocheckpointEnabled"], alpha["schedulingConfig"]) == (True, {"provisioningModel": "STANDARD"})
    shown = http.get(f"/v2/{place}/nodes/a").json()
    assert "autocheckpointEnabled" not in shown
    assert shown["schedulingConfig"] == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_of_another_version_is_not_implemented(http: httpx.Client, version: str) -> None:
    for method in METHODS:
        if version not in method.versions:
            path = method.path.format(zone="us-central2-b", id="x")
            answer = http.request(method.http, f"/{version}/projects/local/locations{path}")
            assert answer.status_code == 501, method.id
            assert answer.json()["error"]["status"] == "UNIMPLEMENTED"
            assert method.full_name(version) in answer.json()["error"]["message"]


def test_a_method_that_nobody_has_is_not_implemented(http: httpx.Client, place: str) -> None:
    answer = http.post(f"/v2/{place}/nodes/a:frobnicate")
    assert answer.status_code == 501
    assert answer.json()["error"]["message"] == "Method nodes.frobnicate is not a method of tpu v2"


def test_the_same_request_is_done_once(http: httpx.Client, place: str, finish: Callable[..., Any]) -> None:
    path = f"/v2alpha1/{place}/nodes?nodeId=a&requestId=11111111-2222-4333-8444-555555555555"
    first, second = (http.post(path, json=NODE).json() for _ in range(2))
    assert first["name"] == second["name"]
    finish(first, "v2alpha1")
    again = http.post(f"/v2alpha1/{place}/nodes?node_id=a&request_id=another", json=NODE)
    assert (again.status_code, again.json()["error"]["status"]) == (409, "ALREADY_EXISTS")
    assert again.json()["error"]["message"] == f"Resource '{place}/nodes/a' already exists"


def test_a_node_without_an_id_gets_one(http: httpx.Client, place: str, finish: Callable[..., Any]) -> None:
    done = finish(http.post(f"/v2/{place}/nodes?$alt=json;enum-encoding=int&prettyPrint=false", json=NODE).json())
    assert done["response"]["name"].startswith(f"{place}/nodes/tpu-")


def test_bodies_may_be_loose(http: httpx.Client, place: str, finish: Callable[..., Any]) -> None:
    body = {
        "accelerator_config": {"type": 7, "topology": "2x2x1"},
        "runtime_version": "x",
        "dataDisks": {"source_disk": "d"},
        "description": None,
    }
    done = finish(http.post(f"/v2/{place}/nodes?node_id=a", json=body).json())
    assert done["response"]["acceleratorType"] == "v4-8"
    assert done["response"]["acceleratorConfig"] == {"type": "V4", "topology": "2x2x1"}
    assert done["response"]["dataDisks"] == [{"sourceDisk": "d"}]
    answer = http.patch(f"/v2/{place}/nodes/a?update_mask=data_disks, networkConfig.enableExternalIps", json={})
    assert "dataDisks" not in answer.json()["response"]
    refused = http.patch(f"/v2/{place}/nodes/a?updateMask=state", json={})
    assert refused.json()["error"]["details"][0]["fieldViolations"][0]["field"] == "updateMask"


def test_an_operation_can_be_waited_for(http: httpx.Client, place: str) -> None:
    made = http.post(f"/v2/{place}/nodes?nodeId=a", json=NODE).json()
    assert http.post(f"/v2/{made['name']}:wait", json={"timeout": "20s"}).json()["done"] is True
    assert http.post(f"/v2/{made['name']}:wait", json={"timeout": "long"}).status_code == 400


def test_maintenance_restarts_a_node(http: httpx.Client, place: str, finish: Callable[..., Any]) -> None:
    finish(http.post(f"/v2/{place}/nodes?nodeId=a", json=NODE).json())
    before = http.get(f"/tpuctl/v1/{place}/slices/a").json()["pid"]
    refused = http.post(f"/v2alpha1/{place}/nodes/a:simulateMaintenanceEvent", json={"workerIds": ["1"]})
    assert "'1' is not a worker" in refused.json()["error"]["message"]
    operation = http.post(f"/v2alpha1/{place}/nodes/a:simulateMaintenanceEvent", json={"workerIds": ["0"]}).json()
    assert http.get(f"/v2/{place}/nodes/a").json()["state"] in ("RESTARTING", "STARTING", "READY")
    assert finish(operation, "v2alpha1")["response"]["state"] == "READY"
    assert http.get(f"/tpuctl/v1/{place}/slices/a").json()["pid"] != before


def test_pods_are_not_stopped(http: httpx.Client, place: str, finish: Callable[..., Any]) -> None:
    finish(http.post(f"/v2/{place}/nodes?nodeId=a", json=NODE | {"acceleratorType": "v4-16"}).json())
    answer = http.post(f"/v2/{place}/nodes/a:stop")
    assert answer.status_code == 400
    assert "Cloud TPU received a bad request. stop is not supported for pods" in answer.json()["error"]["message"]


def test_guest_attributes_are_those_of_the_workers_asked_for(
    http: httpx.Client, place: str, finish: Callable[..., Any]
) -> None:
    finish(http.post(f"/v2/{place}/nodes?nodeId=a", json=NODE | {"acceleratorType": "v4-16"}).json())
    path = f"/v2/{place}/nodes/a:getGuestAttributes"
    everything = http.post(path, json={"workerIds": [""]}).json()["guestAttributes"]
    assert len(everything) == 2
    (one,) = http.post(path, json={"worker_ids": ["1"], "queryPath": "guestInventory/"}).json()["guestAttributes"]
    assert one["queryValue"]["items"] == everything[1]["queryValue"]["items"][:1]
    assert [item["namespace"] for item in everything[0]["queryValue"]["items"]] == ["guestInventory", "hostkeys"]
    assert one["queryValue"]["items"][0]["value"].endswith("-w-1")


def test_the_catalogue_is_that_of_the_version(http: httpx.Client, place: str) -> None:
    assert http.get(f"/v2/{place}/runtimeVersions/v2-alpha").json()["version"] == "v2-alpha"
    assert http.get(f"/v1/{place}/tensorflowVersions?pageSize=1").json()["nextPageToken"] == "1"
    assert "acceleratorConfigs" not in http.get(f"/v1/{place}/acceleratorTypes/v4-8").json()
    assert http.get(f"/v2alpha1/{place}/reservations").json() == {"reservations": []}
    identity = http.post(f"/v2/{place}:generateServiceIdentity").json()["identity"]["email"]
    assert identity == http.post(f"/v2alpha1/{place}:generateServiceIdentity").json()["identity"]["email"]
    assert http.get("/v1alpha1/projects/local/locations").json()["locations"]


def test_a_queued_multislice_is_nodes_of_its_own(
    http: httpx.Client, place: str, finish: Callable[..., Any], wait_until: Wait
) -> None:
    body = queued({"acceleratorType": "v4-16"}, parent=place, multi_node_params={"node_count": 2, "nodeIdPrefix": "n"})
    made = http.post(f"/v2alpha1/{place}/queuedResources?queuedResourceId=Q_1", json=body | {"bestEffort": {}}).json()
    done = finish(made, "v2alpha1")
    assert done["response"]["@type"] == f"{TYPE}.v2alpha1.QueuedResource"
    path = f"{place}/queuedResources/Q_1"
    wait_until(lambda: http.get(f"/v2/{path}").json()["state"]["state"] == "ACTIVE")
    shown = http.get(f"/v2alpha1/{path}").json()
    assert shown["state"] == {"state": "ACTIVE", "stateInitiator": "SERVICE", "activeData": {}}
    assert [spec["nodeId"] for spec in shown["tpu"]["nodeSpec"]] == ["n-0", "n-1"]
    assert shown["tpu"]["nodeSpec"][0]["node"] == NODE | {"acceleratorType": "v4-16"}
    assert "bestEffort" in shown.keys() - http.get(f"/v2/{path}").json().keys()
    nodes = http.get(f"/v2/{place}/nodes").json()["nodes"]
    assert [node["name"] for node in nodes] == [f"{place}/nodes/n-0", f"{place}/nodes/n-1"]
    assert all(node["multisliceNode"] and node["queuedResource"] == path for node in nodes)
    addresses = [end["ipAddress"] for node in nodes for end in node["networkEndpoints"]]
    assert len(set(addresses)) == 4
    assert len({node["id"] for node in nodes}) == 2
    assert http.get(f"/v2/{place}/nodes/n-2").status_code == 404
    assert http.post(f"/v2/{place}/nodes?nodeId=n-1", json=NODE).status_code == 409
    patched = http.patch(f"/v2/{place}/nodes/n-1?updateMask=labels", json={"labels": {"a": "b"}}).json()
    assert patched["response"]["name"] == f"{place}/nodes/n-1"
    info = http.get(f"/v2alpha1/{path}:getMaintenanceInfo").json()["nodeUpcomingMaintenances"]
    assert [one["nodeName"] for one in info] == [node["name"] for node in nodes]
    refused = http.delete(f"/v2/{path}")
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    gone = finish(http.delete(f"/v2/{path}?force=True").json())
    assert gone["response"]["@type"].endswith("Empty")
    assert http.get(f"/v2/{place}/nodes").json() == {"nodes": []}
    assert http.get(f"/v2/{path}").status_code == 404


def test_the_discovery_document_is_there_for_all(http: httpx.Client) -> None:
    root = f"{http.base_url}/"
    url = f"{root}$discovery/rest"
    assert httpx.get(url).json()["version"] == "v2alpha1"
    first = httpx.get(url, params={"version": "v1"}).json()
    assert (first["version"], first["rootUrl"]) == ("v1", root)
    assert httpx.get(url, params={"version": "v9"}).status_code == 404
