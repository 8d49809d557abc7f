"""The table of methods has what Cloud TPU's discovery documents have, and each is answered."""

from __future__ import annotations

import pytest

from tpuctl.server.discovery import document
from tpuctl.server.handlers import HANDLERS
from tpuctl.server.methods import METHODS, VERSIONS, methods

COMMON = """list get acceleratorTypes.list acceleratorTypes.get nodes.list nodes.create nodes.get nodes.delete
nodes.start nodes.stop operations.list operations.get operations.cancel operations.delete"""
VM = """generateServiceIdentity runtimeVersions.list runtimeVersions.get nodes.patch nodes.getGuestAttributes
queuedResources.list queuedResources.create queuedResources.get queuedResources.delete queuedResources.reset"""
ALPHA = """nodes.performMaintenance nodes.simulateMaintenanceEvent queuedResources.performMaintenanceQueuedResource
queuedResources.getMaintenanceInfo reservations.list"""
LEGACY = "nodes.reimage tensorflowVersions.list tensorflowVersions.get"
PUBLISHED = {
    "v2": COMMON + " " + VM,
    "v2alpha1": f"{COMMON} {VM} {ALPHA}",
    "v1": f"{COMMON} {LEGACY}",
    "v1alpha1": f"{COMMON} {LEGACY}",
}
"""What Google publishes for each version, revision 20261001."""


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_what_google_publishes(version: str) -> None:
    ours = {method.id for method in methods(version)}
    assert ours - {"operations.wait"} == set(PUBLISHED[version].split())


def test_every_method_is_answered() -> None:
    assert HANDLERS.keys() == {method.id for method in METHODS}


@pytest.mark.parametrize(
    ("method", "version", "name"),
    [
        ("nodes.create", "v2", "google.cloud.tpu.v2.Tpu.CreateNode"),
        ("operations.get", "v1", "google.longrunning.Operations.GetOperation"),
    ],
)
def test_methods_are_named_in_full(method: str, version: str, name: str) -> None:
    (found,) = [one for one in METHODS if one.id == method]
    assert found.full_name(version) == name


def test_the_query_is_that_of_the_version() -> None:
    (create,) = [one for one in METHODS if one.id == "nodes.create"]
    assert create.parameters("v2") == {"nodeId": "string"}
    assert create.parameters("v2alpha1") == {"nodeId": "string", "requestId": "string"}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_message_of_a_document_is_in_it(version: str) -> None:
    made = document(version, "http://127.0.0.1:1/")
    text = repr(made)
    named = {part.split("'")[0] for part in text.split("{'$ref': '")[1:]}
    assert named <= made["schemas"].keys()


def test_a_document_tells_the_methods_of_its_version() -> None:
    locations = document("v1", "http://127.0.0.1:1/")["resources"]["projects"]["resources"]["locations"]
    nodes = locations["resources"]["nodes"]["methods"]
    assert nodes["reimage"]["path"] == "v1/{+name}:reimage"
    assert nodes["reimage"]["flatPath"] == "v1/projects/{projectsId}/locations/{locationsId}/nodes/{nodesId}:reimage"
    assert nodes["reimage"]["parameters"]["name"]["pattern"] == "^projects/[^/]+/locations/[^/]+/nodes/[^/]+$"
    assert nodes["create"]["path"] == "v1/{+parent}/nodes"
    assert nodes["create"]["request"] == {"$ref": "Node"}
    assert "patch" not in nodes
    assert locations["methods"]["list"]["path"] == "v1/{+name}/locations"
    assert locations["resources"]["operations"]["methods"]["list"]["path"] == "v1/{+name}/operations"


def test_each_version_has_its_own_fields() -> None:
    nodes = {version: document(version, "http://h/")["schemas"]["Node"]["properties"] for version in VERSIONS}
    assert nodes["v1"]["serviceAccount"] == {"type": "string"}
    assert nodes["v2"]["serviceAccount"] == {"$ref": "ServiceAccount"}
    assert nodes["v2"]["id"] == {"type": "string", "format": "int64"}
    assert "autocheckpointEnabled" in nodes["v2alpha1"].keys() - nodes["v2"].keys()
    assert "modelName" in nodes["v1alpha1"].keys() - nodes["v1"].keys()
