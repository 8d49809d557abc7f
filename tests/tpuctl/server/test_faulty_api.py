"""Faults of the API as a client meets them: added and cleared over HTTP, and told in the words of the real service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

ZONE = "/v2/projects/local/locations/europe-west4-a"
FAULTS = "/tpuctl/v1/faults"
V3 = {"acceleratorType": "v3-8", "runtimeVersion": "x"}
Wait = Callable[..., None]


def create(http: httpx.Client, name: str = "a") -> httpx.Response:
    return http.post(f"{ZONE}/nodes?nodeId={name}", json=V3)


def add(http: httpx.Client, kind: str, **settings: Any) -> str:
    made = http.post(FAULTS, json={"kind": kind, **settings})
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


def polled(http: httpx.Client, operation: Any, wait_until: Wait) -> Any:
    path = f"/v2/{operation['name']}"
    wait_until(lambda: http.get(path).json()["done"])
    return http.get(path).json()


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("stockout", 429, 'There is no more capacity in the zone "europe-west4-a"'),
        ("quota", 429, "Quota limit 'TPUV3sPerProjectPerRegionForTPUAPI' has been exceeded"),
        ("unavailable", 503, "The service is currently unavailable."),
    ],
)
def test_a_create_is_refused_as_often_as_asked_and_changes_nothing(
    http: httpx.Client, kind: str, status: int, said: str
) -> None:
    add(http, kind, count=1, **({"method": "nodes.create"} if kind == "unavailable" else {}))
    refused = create(http)
    assert refused.status_code == status
    assert said in refused.json()["error"]["message"]
    assert http.get(f"{ZONE}/nodes").json() == {"nodes": []}
    assert http.get(f"{ZONE}/operations").json() == {"operations": []}
    assert create(http).status_code == 200


@pytest.mark.parametrize(("kind", "said"), [("stockout-later", "no more capacity"), ("reservation", "Insufficient")])
def test_a_create_fails_in_its_operation_and_the_node_disappears(
    http: httpx.Client, wait_until: Wait, kind: str, said: str
) -> None:
    add(http, kind, name="a", seconds=0.1)
    operation = create(http).json()
    assert http.get(f"{ZONE}/nodes/a").json()["state"] == "CREATING"
    done = polled(http, operation, wait_until)
    assert done["error"]["code"] == 8
    assert said in done["error"]["message"]
    assert http.get(f"{ZONE}/nodes/a").status_code == 404


def test_a_spurious_conflict_answers_409_to_a_create_that_was_done(http: httpx.Client) -> None:
    add(http, "conflict", count=1)
    answered = create(http)
    assert answered.status_code == 409
    assert answered.json()["error"]["message"].endswith("/nodes/a' already exists")
    assert http.get(f"{ZONE}/nodes/a").status_code == 200


def test_only_so_many_creates_a_minute(http: httpx.Client) -> None:
    add(http, "rate-limit", limit=1)
    assert create(http, "a").status_code == 200
    refused = create(http, "b")
    assert refused.status_code == 429
    assert "Maximum number of CreateNode requests per minute" in refused.json()["error"]["message"]


def test_an_operation_without_end_ends_once_the_fault_is_cleared(http: httpx.Client, wait_until: Wait) -> None:
    fault = add(http, "endless")
    operation = create(http).json()
    wait_until(lambda: http.get(FAULTS).json()["faults"][0]["struck"] == 1)
    assert http.post(f"/v2/{operation['name']}:wait", json={"timeout": "0.3s"}).json()["done"] is False
    assert http.delete(f"{FAULTS}/{fault}").status_code == 200
    assert polled(http, operation, wait_until)["response"]["state"] == "READY"


def test_a_slow_operation_is_slow_whatever_it_does(
    http: httpx.Client, make: Callable[[str], Any], wait_until: Wait
) -> None:
    make("a")
    add(http, "slow", method="nodes.patch", seconds=0.3)
    changed = http.patch(f"{ZONE}/nodes/a?updateMask=labels", json={"labels": {"x": "y"}}).json()
    assert changed["done"] is False
    assert "response" not in changed
    assert polled(http, changed, wait_until)["response"]["labels"] == {"x": "y"}


def test_a_queued_resource_gets_its_node_late(http: httpx.Client, wait_until: Wait) -> None:
    fault = add(http, "late", seconds=1000)
    queue = ZONE.replace("europe-west4-a", "us-central2-b") + "/queuedResources"
    node = {"nodeId": "n", "node": {"acceleratorType": "v4-8", "runtimeVersion": "x"}}
    http.post(f"{queue}?queuedResourceId=q", json={"tpu": {"nodeSpec": node}})

    def state() -> str:
        return str(http.get(f"{queue}/q").json()["state"]["state"])

    wait_until(lambda: state() == "WAITING_FOR_RESOURCES")
    http.delete(f"{FAULTS}/{fault}")
    wait_until(lambda: state() == "ACTIVE")


def test_a_preempted_node_suspends_its_queued_resource(http: httpx.Client, wait_until: Wait) -> None:
    add(http, "preempt", name="n", after=0.1)
    queue = ZONE.replace("europe-west4-a", "us-central2-b") + "/queuedResources"
    node = {"nodeId": "n", "node": {"acceleratorType": "v4-8", "runtimeVersion": "x"}}
    http.post(f"{queue}?queuedResourceId=q", json={"tpu": {"nodeSpec": node}, "spot": {}})
    wait_until(lambda: http.get(f"{queue}/q").json()["state"]["state"] == "SUSPENDED")
    assert http.get(f"{queue}/q").json()["state"]["stateInitiator"] == "SERVICE"


def test_health_flips_and_comes_back(http: httpx.Client, make: Callable[[str], Any], wait_until: Wait) -> None:
    make("a")
    add(http, "unhealthy", seconds=0.5)
    wait_until(lambda: http.get(f"{ZONE}/nodes/a").json()["health"] == "UNHEALTHY_MAINTENANCE")
    wait_until(lambda: http.get(f"{ZONE}/nodes/a").json()["health"] == "HEALTHY")
    assert "healthDescription" not in http.get(f"{ZONE}/nodes/a").json()


def test_a_fault_that_cannot_be_is_refused(http: httpx.Client) -> None:
    for wrong in ({"kind": "rain"}, {"kind": "stockout", "seconds": 1}, {"kind": "slow", "probability": 2}):
        assert http.post(FAULTS, json=wrong).status_code == 400
    assert http.delete(f"{FAULTS}/nope").status_code == 404
    assert http.get(FAULTS).json() == {"faults": []}


def test_a_quota_of_calls_counts_each_method_by_itself(http: httpx.Client) -> None:
    asked = {"project": "local", "method": "nodes.create", "limit": 1}
    assert http.post("/tpuctl/v1/quotas", json=asked).status_code == 200
    assert create(http, "a").status_code == 200
    refused = create(http, "b").json()["error"]
    assert refused["status"] == "RESOURCE_EXHAUSTED"
    assert "Maximum number of CreateNode requests per minute" in refused["message"]
    assert len(http.get(f"{ZONE}/nodes").json()["nodes"]) == 1
    (shown,) = http.get("/tpuctl/v1/projects/local/quotas").json()["quotas"]
    assert (shown["inUse"], shown["unit"]) == (1, "requests a minute")
    unknown = http.post("/tpuctl/v1/quotas", json=asked | {"method": "nodes.make"})
    assert unknown.status_code == 400
    assert "'nodes.make' is none of the API's; there are nodes." in unknown.text
