"""Which methods does each version of the Cloud TPU API have? The one table that routes and documents come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpuctl.api import actions, catalogue, queued
from tpuctl.api.legacy import LegacyNode
from tpuctl.api.model import Model
from tpuctl.api.nodes import Node, NodeList
from tpuctl.api.operations import Operation, OperationList, WaitRequest

VERSIONS = ("v2", "v2alpha1", "v1", "v1alpha1")
LEGACY = frozenset({"v1", "v1alpha1"})
ALL = frozenset(VERSIONS)
ALPHA = frozenset({"v2alpha1"})
VM = frozenset({"v2", "v2alpha1"})
STANDARD_QUERY = frozenset(
    "alt $alt fields key access_token oauth_token prettyPrint quotaUser callback uploadType upload_protocol "
    "$.xgafv".split()
)
"""Query parameters that every Google API takes; none of them changes an answer here."""

PAGES = {"pageSize": "integer", "pageToken": "string"}
CHOSEN_PAGES = PAGES | {"filter": "string", "orderBy": "string"}
REQUEST_ID = {"requestId": "string"}


@dataclass(frozen=True)
class Method:
    """``id`` is what Google calls it below projects.locations, ``path`` goes on after projects/PROJECT/locations.

    ``query`` are the types of its parameters by name; those in ``sometimes`` are only in some versions. The body is a
    ``request``, or that message's field ``body`` (in snake case).
    """

    id: str
    rpc: str
    http: str
    path: str
    versions: frozenset[str]
    response: type[Model]
    query: dict[str, str]
    request: type[Model] | None = None
    body: str = ""
    sometimes: tuple[tuple[frozenset[str], dict[str, str]], ...] = ()

    def parameters(self, version: str) -> dict[str, str]:
        """The types of the query's parameters in ``version``, by name."""
        extra = [more for versions, more in self.sometimes if version in versions]
        return {name: kind for query in [self.query, *extra] for name, kind in query.items()}

    def message(self, version: str) -> type[Model] | None:
        """What its body is in ``version``."""
        return in_version(self.request, version) if self.request else None

    def full_name(self, version: str) -> str:
        """As Google's logs and permissions name it: ``google.cloud.tpu.v2.Tpu.CreateNode``."""
        return f"google.cloud.tpu.{version}.Tpu.{self.rpc}" if "." not in self.rpc else self.rpc


def in_version(kind: type[Model], version: str) -> type[Model]:
    return LegacyNode if kind is Node and version in LEGACY else kind


NODES, NODE = "/{zone}/nodes", "/{zone}/nodes/{id}"
QUEUE, QUEUED = "/{zone}/queuedResources", "/{zone}/queuedResources/{id}"
OPERATIONS, OPERATION = "/{zone}/operations", "/{zone}/operations/{id}"
RPC_OPERATIONS, RPC_LOCATIONS = "google.longrunning.Operations", "google.cloud.location.Locations"
ASKED_TWICE = (ALPHA | {"v1alpha1"}, REQUEST_ID)
LISTED = PAGES | {"filter": "string"}

METHODS = (
    Method("list", f"{RPC_LOCATIONS}.ListLocations", "GET", "", ALL, catalogue.LocationList,
           LISTED | {"extraLocationTypes": "string"}),
    Method("get", f"{RPC_LOCATIONS}.GetLocation", "GET", "/{zone}", ALL, catalogue.Location, {}),
    Method("generateServiceIdentity", "GenerateServiceIdentity", "POST", "/{zone}:generateServiceIdentity", VM,
           catalogue.ServiceIdentityResponse, {}, catalogue.ServiceIdentityRequest),
    Method("acceleratorTypes.list", "ListAcceleratorTypes", "GET", "/{zone}/acceleratorTypes", ALL,
           catalogue.AcceleratorTypeList, CHOSEN_PAGES),
    Method("acceleratorTypes.get", "GetAcceleratorType", "GET", "/{zone}/acceleratorTypes/{id}", ALL,
           catalogue.AcceleratorType, {}),
    Method("runtimeVersions.list", "ListRuntimeVersions", "GET", "/{zone}/runtimeVersions", VM,
           catalogue.RuntimeVersionList, CHOSEN_PAGES),
    Method("runtimeVersions.get", "GetRuntimeVersion", "GET", "/{zone}/runtimeVersions/{id}", VM,
           catalogue.RuntimeVersion, {}),
    Method("tensorflowVersions.list", "ListTensorFlowVersions", "GET", "/{zone}/tensorflowVersions", LEGACY,
           catalogue.TensorFlowVersionList, CHOSEN_PAGES),
    Method("tensorflowVersions.get", "GetTensorFlowVersion", "GET", "/{zone}/tensorflowVersions/{id}", LEGACY,
           catalogue.TensorFlowVersion, {}),
    Method("nodes.list", "ListNodes", "GET", NODES, ALL, NodeList, PAGES),
    Method("nodes.create", "CreateNode", "POST", NODES, ALL, Operation, {"nodeId": "string"}, Node, "node",
           (ASKED_TWICE,)),
    Method("nodes.get", "GetNode", "GET", NODE, ALL, Node, {}),
    Method("nodes.patch", "UpdateNode", "PATCH", NODE, VM, Operation, {"updateMask": "string"}, Node, "node"),
    Method("nodes.delete", "DeleteNode", "DELETE", NODE, ALL, Operation, {}, sometimes=(ASKED_TWICE,)),
    Method("nodes.start", "StartNode", "POST", f"{NODE}:start", ALL, Operation, {}, actions.StartRequest),
    Method("nodes.stop", "StopNode", "POST", f"{NODE}:stop", ALL, Operation, {}, actions.StopRequest),
    Method("nodes.reimage", "ReimageNode", "POST", f"{NODE}:reimage", LEGACY, Operation, {}, actions.ReimageRequest),
    Method("nodes.getGuestAttributes", "GetGuestAttributes", "POST", f"{NODE}:getGuestAttributes", VM,
           actions.GuestAttributesResponse, {}, actions.GuestAttributesRequest),
    Method("nodes.performMaintenance", "PerformMaintenance", "POST", f"{NODE}:performMaintenance", ALPHA, Operation,
           {}, actions.MaintenanceRequest),
    Method("nodes.simulateMaintenanceEvent", "SimulateMaintenanceEvent", "POST", f"{NODE}:simulateMaintenanceEvent",
           ALPHA, Operation, {}, actions.MaintenanceEventRequest),
    Method("operations.list", f"{RPC_OPERATIONS}.ListOperations", "GET", OPERATIONS, ALL, OperationList,
           LISTED | {"returnPartialSuccess": "boolean"}),
    Method("operations.get", f"{RPC_OPERATIONS}.GetOperation", "GET", OPERATION, ALL, Operation, {}),
    Method("operations.cancel", f"{RPC_OPERATIONS}.CancelOperation", "POST", f"{OPERATION}:cancel", ALL,
           actions.Empty, {}, actions.Empty),
    Method("operations.wait", f"{RPC_OPERATIONS}.WaitOperation", "POST", f"{OPERATION}:wait", ALL, Operation, {},
           WaitRequest),
    Method("operations.delete", f"{RPC_OPERATIONS}.DeleteOperation", "DELETE", OPERATION, ALL, actions.Empty, {}),
    Method("queuedResources.list", "ListQueuedResources", "GET", QUEUE, VM, queued.QueuedResourceList, PAGES),
    Method("queuedResources.create", "CreateQueuedResource", "POST", QUEUE, VM, Operation,
           {"queuedResourceId": "string"} | REQUEST_ID, queued.QueuedResource, "queued_resource"),
    Method("queuedResources.get", "GetQueuedResource", "GET", QUEUED, VM, queued.QueuedResource, {}),
    Method("queuedResources.delete", "DeleteQueuedResource", "DELETE", QUEUED, VM, Operation,
           {"force": "boolean"} | REQUEST_ID),
    Method("queuedResources.reset", "ResetQueuedResource", "POST", f"{QUEUED}:reset", VM, Operation, {},
           queued.ResetRequest),
    Method("queuedResources.performMaintenanceQueuedResource", "PerformMaintenanceQueuedResource", "POST",
           f"{QUEUED}:performMaintenanceQueuedResource", ALPHA, Operation, {}, queued.QueuedMaintenanceRequest),
    Method("queuedResources.getMaintenanceInfo", "GetMaintenanceInfo", "GET", f"{QUEUED}:getMaintenanceInfo", ALPHA,
           queued.MaintenanceInfo, {}),
    Method("reservations.list", "ListReservations", "GET", "/{zone}/reservations", ALPHA, catalogue.ReservationList,
           PAGES),
)  # fmt: skip


def methods(version: str) -> Iterator[Method]:
    """Those that ``version`` has."""
    return (method for method in METHODS if version in method.versions)
