"""Queued resources go on where they were when the control plane is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conftest import PlaneProcess

from tpuctl.client import Client

QUEUE = "/v2/projects/local/locations/us-central2-b/queuedResources"


def call(plane: PlaneProcess, client: Client, method: str, path: str, **more: Any) -> Any:
    headers = {"authorization": f"Bearer {plane.home.token.read_text().strip()}"}
    return httpx.request(method, client.url + path, headers=headers, **more).json()


@pytest.mark.slow
def test_killed_at_any_time_every_queued_resource_gets_its_node(
    plane_process: PlaneProcess, wait_until: Callable[..., None]
) -> None:
    client = plane_process.start()
    names = [f"q{number}" for number in range(2)]
    for number, name in enumerate(names):
        node = {"nodeId": f"n{number}", "node": {"acceleratorType": "v4-8", "runtimeVersion": "x"}}
        body = {"tpu": {"nodeSpec": node}, "queueingPolicy": {"validAfterDuration": f"{number}s"}}
        made = call(plane_process, client, "POST", f"{QUEUE}?queuedResourceId={name}", json=body)
        assert made["metadata"]["verb"] == "create"
        plane_process.kill()
        client = plane_process.start()

    def states() -> list[str]:
        found = call(plane_process, client, "GET", QUEUE)["queuedResources"]
        return [row["state"]["state"] for row in found]

    wait_until(lambda: states() == ["ACTIVE"] * len(names), 20.0)
    operations = call(plane_process, client, "GET", QUEUE.replace("queuedResources", "operations"))["operations"]
    assert len(operations) == 2 * len(names)
    assert all(one["done"] and "response" in one for one in operations)
    for name in names:
        call(plane_process, client, "DELETE", f"{QUEUE}/{name}?force=true")
    plane_process.kill()
    client = plane_process.start()
    wait_until(lambda: call(plane_process, client, "GET", QUEUE) == {"queuedResources": []}, 20.0)
    assert client.list_nodes() == []
    wait_until(lambda: plane_process.living() == [])
