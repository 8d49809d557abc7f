"""Google's own clients, unchanged, against a control plane with real slices.

What is not installed is skipped.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpuctl.api.home import Home
from tpuctl.client import lifecycle

PLACE = "projects/local/locations/us-central2-b"
NODES = f"{PLACE}/nodes"
SECONDS = 60.0
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

with warnings.catch_warnings():
    warnings.simplefilter("default")
    tpu_v2: Any = pytest.importorskip("google.cloud.tpu_v2")
    exceptions: Any = pytest.importorskip("google.api_core.exceptions")
    credentials: Any = pytest.importorskip("google.oauth2.credentials")
    from google_clients import google_client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL and the token of a control plane."""
    home = Home(Path(tmp_path_factory.mktemp("home")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPUCTL_HOME", str(home.path))
        patch.setenv("TPUCTL_PORT", "0")
        found = lifecycle.start(home)
        client = lifecycle.connect()
        yield found.url, home.token.read_text().strip()
        for node in client.list_nodes():
            _, _, _, zone, _, name = node.name.split("/")
            client.delete_node(name, zone)
        deadline = time.monotonic() + SECONDS
        while client.list_nodes() and time.monotonic() < deadline:
            time.sleep(0.05)
        client.close()
        lifecycle.stop(home)


@pytest.fixture(params=["grpc", "rest"])
def client(server: tuple[str, str], request: pytest.FixtureRequest) -> Iterator[Any]:
    known = json.loads(Home.find().server.read_text())
    with google_client("v2", request.param, known, server[1]) as made:
        yield made.client


def test_a_node_lives_its_life(client: Any) -> None:
    config = tpu_v2.AcceleratorConfig(type_="V4", topology="2x2x1")
    wanted = tpu_v2.Node(accelerator_config=config, runtime_version="v2-alpha-tpuv4", labels={"a": "b"})
    made = client.create_node(parent=PLACE, node_id="life", node=wanted).result(timeout=SECONDS)
    assert (made.name, made.state.name, made.health.name) == (f"{NODES}/life", "READY", "HEALTHY")
    assert (made.accelerator_type, made.runtime_version, dict(made.labels)) == ("v4-8", "v2-alpha-tpuv4", {"a": "b"})
    assert client.get_node(name=made.name) == made
    changed = tpu_v2.Node(name=made.name, labels={"c": "d"}, description="not this")
    mask = {"paths": ["labels", "network_config.enable_external_ips"]}
    done = client.update_node(node=changed, update_mask=mask).result(timeout=SECONDS)
    assert (dict(done.labels), done.description) == ({"c": "d"}, "")
    assert client.stop_node(request={"name": made.name}).result(timeout=SECONDS).state.name == "STOPPED"
    assert client.start_node(request={"name": made.name}).result(timeout=SECONDS).state.name == "READY"
    (attributes,) = client.get_guest_attributes(request={"name": made.name}).guest_attributes
    assert [item.key for item in attributes.query_value.items] == ["hostname"]
    assert client.delete_node(name=made.name).result(timeout=SECONDS) is not None
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=made.name)


def test_errors_are_the_client_s_own(client: Any) -> None:
    node = tpu_v2.Node(accelerator_type="v4-8", runtime_version="v2-alpha")
    client.create_node(parent=PLACE, node_id="taken", node=node).result(timeout=SECONDS)
    with pytest.raises(exceptions.Conflict, match=f"Resource '{NODES}/taken' already exists"):
        client.create_node(parent=PLACE, node_id="taken", node=node)
    with pytest.raises(exceptions.NotFound) as missing:
        client.get_node(name=f"{NODES}/missing")
    assert f"{NODES}/missing" in str(missing.value.details[0])
    with pytest.raises(exceptions.BadRequest, match="was not found in zone us-central2-b"):
        client.create_node(parent=PLACE, node_id="other", node=tpu_v2.Node(accelerator_type="v5p-8"))
    with pytest.raises(exceptions.Forbidden, match="Location mars-a is not found or access is unauthorized"):
        client.list_nodes(parent="projects/local/locations/mars-a")
    client.delete_node(name=f"{NODES}/taken").result(timeout=SECONDS)


def test_lists_are_read_page_by_page(client: Any) -> None:
    listed = client.list_accelerator_types(request={"parent": PLACE, "page_size": 3})
    assert len(list(listed.pages)) > 1
    names = {found.type_ for found in client.list_accelerator_types(parent=PLACE)}
    assert "v4-8" in names
    assert "v2-alpha" in {found.version for found in client.list_runtime_versions(parent=PLACE)}
    places = client.list_locations({"name": "projects/local"}).locations
    assert "us-central2-b" in {place.location_id for place in places}
    assert client.generate_service_identity(request={"parent": PLACE}).identity.email.startswith("service-")


def test_a_queued_resource_lives_its_life(client: Any) -> None:
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
        parent=PLACE,
        multislice_params={"node_count": 2, "node_id_prefix": "many"},
        node=tpu_v2.Node(accelerator_type="v4-16", runtime_version="v2-alpha-tpuv4"),
    )
    wanted = tpu_v2.QueuedResource(tpu={"node_spec": [spec]}, spot={})
    made = client.create_queued_resource(parent=PLACE, queued_resource_id="queue", queued_resource=wanted)
    name = made.result(timeout=SECONDS).name
    deadline = time.monotonic() + SECONDS
    while client.get_queued_resource(name=name).state.state.name != "ACTIVE":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shown = client.get_queued_resource(name=name)
    assert [one.node_id for one in shown.tpu.node_spec] == ["many-0", "many-1"]
    for one in shown.tpu.node_spec:
        node = client.get_node(name=f"{NODES}/{one.node_id}")
        assert (node.queued_resource, node.multislice_node, len(node.network_endpoints)) == (name, True, 2)
    with pytest.raises(exceptions.BadRequest, match="force"):
        client.delete_queued_resource(name=name)
    forced = tpu_v2.DeleteQueuedResourceRequest(name=name, force=True)
    client.delete_queued_resource(request=forced).result(timeout=SECONDS)
    assert name not in {found.name for found in client.list_queued_resources(parent=PLACE)}


def test_operations_can_be_listed_and_forgotten(client: Any) -> None:
    node = tpu_v2.Node(accelerator_type="v4-8", runtime_version="v2-alpha")
    operation = client.create_node(parent=PLACE, node_id="once", node=node)
    operation.result(timeout=SECONDS)
    listed = {found.name for found in client.list_operations({"name": PLACE}).operations}
    assert operation.operation.name in listed
    client.cancel_operation({"name": operation.operation.name})
    client.delete_operation({"name": operation.operation.name})
    with pytest.raises(exceptions.NotFound):
        client.get_operation({"name": operation.operation.name})
    client.delete_node(name=f"{NODES}/once").result(timeout=SECONDS)


@pytest.mark.parametrize("version", [None, "v1", "v2", "v2alpha1"])
def test_a_client_made_from_the_discovery_document_works(server: tuple[str, str], version: str | None) -> None:
    discovery = pytest.importorskip("googleapiclient.discovery")
    errors = pytest.importorskip("googleapiclient.errors")
    url, token = server
    query = f"?version={version}" if version else ""
    tpu = discovery.build(
        "tpu",
        version or "v1",
        credentials=credentials.Credentials(token),
        discoveryServiceUrl=f"{url}/$discovery/rest{query}",
        cache_discovery=False,
    )
    locations = tpu.projects().locations()
    software = {"tensorflowVersion": "2.12.0"} if version == "v1" else {"runtimeVersion": "v2-alpha"}
    name = f"found-{version or 'default'}"
    made = locations.nodes().create(parent=PLACE, nodeId=name, body={"acceleratorType": "v4-8", **software}).execute()
    deadline = time.monotonic() + SECONDS
    while "response" not in made:
        assert time.monotonic() < deadline
        made = locations.operations().get(name=made["name"]).execute()
    assert made["response"]["@type"] == f"type.googleapis.com/google.cloud.tpu.{version or 'v2alpha1'}.Node"
    assert f"{NODES}/{name}" in {node["name"] for node in locations.nodes().list(parent=PLACE).execute()["nodes"]}
    with pytest.raises(errors.HttpError) as missing:
        locations.nodes().get(name=f"{NODES}/missing").execute()
    assert missing.value.error_details[0]["@type"] == "type.googleapis.com/google.rpc.ResourceInfo"
    locations.nodes().delete(name=f"{NODES}/{name}").execute()
    tpu.close()
