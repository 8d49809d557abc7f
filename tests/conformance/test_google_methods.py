"""Every method of google-cloud-tpu's clients, of all versions and over all transports.

The slices have stand-ins for runtimes: real processes without chips.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.cloud.tpu_v2")

from google.api_core import exceptions
from google_clients import CLIENTS, GoogleClient, google_client

ROOMS = Path(__file__).parents[1] / "tpuctl"
START = f"""
import sys
sys.path.insert(0, {str(ROOMS / "server")!r})
from pathlib import Path
from plane_process import run
run(Path(sys.argv[1]))
"""
pytestmark = pytest.mark.filterwarnings("default")


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a control plane has its state."""
    path = tmp_path_factory.mktemp("home")
    server = subprocess.Popen([sys.executable, "-c", START, str(path)], env=os.environ)
    wait_until((path / "server.json").exists)
    yield path
    server.terminate()
    server.wait(20)


@pytest.fixture
def client(home: Path, request: pytest.FixtureRequest) -> Iterator[GoogleClient]:
    version, transport = request.param
    server = json.loads((home / "server.json").read_text())
    with google_client(version, transport, server, (home / "token").read_text().strip()) as made:
        yield made


@pytest.fixture
def place(client: GoogleClient, request: pytest.FixtureRequest) -> str:
    return f"projects/{request.node.callspec.id.replace('_', '-').lower()}/locations/us-central2-b"


SLOW = {("v2alpha1", "grpc_asyncio"), ("v1", "grpc_asyncio")}
every_client = pytest.mark.parametrize(
    "client",
    [pytest.param(one, id="-".join(one), marks=[pytest.mark.slow] if one in SLOW else []) for one in CLIENTS],
    indirect=True,
)


@every_client
def test_every_method_is_answered(client: GoogleClient, place: str) -> None:
    node_life(client, place)
    operations_and_places(client, place)
    if client.version == "v1":
        catalogue(client, place, "tensor_flow_version")
    else:
        catalogue(client, place, "runtime_version")
        queue_life(client, place)
        email = client.call("generate_service_identity", parent=place).identity.email
        assert email.endswith("@cloud-tpu.iam.gserviceaccount.com")
    if client.version == "v2alpha1":
        assert client.call("list_reservations", parent=place) == []
    assert client.methods - client.called == set()


def node_life(client: GoogleClient, place: str) -> None:
    name, software = f"{place}/nodes/life", "tensorflow_version" if client.version == "v1" else "runtime_version"
    wanted = {"accelerator_type": "v4-8", software: "first", "labels": {"a": "b"}}
    made = client.finish("create_node", parent=place, node_id="life", node=wanted)
    assert type(made) is client.types.Node
    assert (made.name, made.state.name, made.health.name, dict(made.labels)) == (name, "READY", "HEALTHY", {"a": "b"})
    assert getattr(made, software) == "first"
    assert [endpoint.port for endpoint in made.network_endpoints] == [8470]
    assert made.create_time.year >= 2026
    assert client.call("get_node", name=name) == made
    assert client.call("list_nodes", parent=place) == [made]
    if client.version == "v1":
        assert client.finish("reimage_node", name=name, tensorflow_version="second").tensorflow_version == "second"
    else:
        assert made.id > 0
        changed = {"name": name, "labels": {"c": "d"}, "description": "not this"}
        mask = {"paths": ["labels", "network_config.enable_external_ips"]}
        done = client.finish("update_node", node=changed, update_mask=mask)
        assert (dict(done.labels), done.description) == ({"c": "d"}, "")
        (attributes,) = client.call("get_guest_attributes", name=name, worker_ids=[""]).guest_attributes
        assert "hostname" in [item.key for item in attributes.query_value.items]
    if client.version == "v2alpha1":
        assert client.finish("perform_maintenance", name=name).state.name == "READY"
        assert client.finish("simulate_maintenance_event", name=name, worker_ids=["0"]).state.name == "READY"
    assert client.finish("stop_node", name=name).state.name == "STOPPED"
    assert client.finish("start_node", name=name).state.name == "READY"
    gone = client.finish("delete_node", name=name)
    assert type(gone).__name__ == ("Node" if client.version == "v1" else "Empty")
    with pytest.raises(exceptions.NotFound, match=f"Resource '{name}' was not found"):
        client.call("get_node", name=name)


def catalogue(client: GoogleClient, place: str, software: str) -> None:
    found = client.call("list_accelerator_types", parent=place)
    assert "v4-8" in {one.type_ for one in found}
    assert client.call("get_accelerator_type", name=found[0].name) == found[0]
    versions = client.call(f"list_{software}s", parent=place)
    assert versions
    assert client.call(f"get_{software}", name=versions[0].name) == versions[0]


def queue_life(client: GoogleClient, place: str) -> None:
    name, alpha = f"{place}/queuedResources/queue", client.version == "v2alpha1"
    several = {"node_count": 2, "node_id_prefix": "many"}
    spec = {
        "parent": place,
        "node": {"accelerator_type": "v4-8", "runtime_version": "v2-alpha-tpuv4"},
        ("multi_node_params" if alpha else "multislice_params"): several,
    }
    wanted = {"tpu": {"node_spec": [spec]}, "spot": {}}
    asked = {"parent": place, "queued_resource_id": "queue", "queued_resource": wanted}
    assert client.finish("create_queued_resource", **asked).name == name
    wait_until(lambda: client.call("get_queued_resource", name=name).state.state.name == "ACTIVE")
    (listed,) = client.call("list_queued_resources", parent=place)
    assert [one.node_id for one in listed.tpu.node_spec] == ["many-0", "many-1"]
    node = client.call("get_node", name=f"{place}/nodes/many-1")
    assert (node.queued_resource, node.multislice_node) == (name, True)
    if alpha:
        client.finish("perform_maintenance_queued_resource", name=name, node_names=[node.name])
    with pytest.raises((exceptions.FailedPrecondition, exceptions.BadRequest), match="force"):
        client.call("delete_queued_resource", name=name)
    client.finish("delete_node", name=node.name)
    wait_until(lambda: client.call("get_queued_resource", name=name).state.state.name == "SUSPENDED")
    client.finish("reset_queued_resource", name=name)
    wait_until(lambda: client.call("get_queued_resource", name=name).state.state.name == "ACTIVE")
    client.finish("delete_queued_resource", name=name, force=True)
    assert client.call("list_queued_resources", parent=place) == []


def operations_and_places(client: GoogleClient, place: str) -> None:
    listed = client.call("list_operations", name=place).operations
    assert listed
    assert all(one.done for one in listed)
    one = client.call("get_operation", name=listed[0].name)
    assert one == listed[0]
    assert one.metadata.type_url == f"type.googleapis.com/google.cloud.tpu.{client.version}.OperationMetadata"
    client.call("cancel_operation", name=one.name)
    client.call("delete_operation", name=one.name)
    with pytest.raises(exceptions.NotFound):
        client.call("get_operation", name=one.name)
    project = place.rpartition("/locations/")[0]
    assert place in {found.name for found in client.call("list_locations", name=project).locations}
    assert client.call("get_location", name=place).location_id == "us-central2-b"
