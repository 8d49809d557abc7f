"""What each method of the Cloud TPU API does, whatever the version and the transport."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tpuctl.api import actions
from tpuctl.api import catalogue as api
from tpuctl.api.errors import InvalidArgument, Unimplemented
from tpuctl.api.model import Model
from tpuctl.api.nodes import Node, NodesAsJson
from tpuctl.api.operations import Operation, OperationList, WaitRequest
from tpuctl.api.queued import (
    MaintenanceInfo,
    NodeMaintenance,
    QueuedMaintenanceRequest,
    QueuedResource,
    QueuedResourceList,
)
from tpuctl.control import catalogue, guest
from tpuctl.control.plane import ControlPlane
from tpuctl.control.queued_states import seconds
from tpuctl.server.methods import VERSIONS, Method
from tpuctl.server.paging import page, place, read_page
from tpuctl.server.versions import API_VERSIONS

WAIT_SECONDS = 30.0
"""At most; a client that wants to wait longer asks again."""
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Call:
    """A request, read: ``query`` has its parameters in camel case; it ``is_awaited`` as long as its caller is there."""

    version: str
    project: str
    zone: str = "-"
    id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Model | None = None
    is_awaited: Callable[[], bool] = lambda: True

    @property
    def parent(self) -> tuple[str, str]:
        return self.project, self.zone

    @property
    def name(self) -> tuple[str, str, str]:
        return self.project, self.zone, self.id

    @property
    def made_in(self) -> str:
        """The version as what is made in it says."""
        return API_VERSIONS[self.version]

    @property
    def request_id(self) -> str:
        return self.query.get("requestId", "")

    def paged(self, items: Sequence[Any]) -> tuple[list[Any], str | None]:
        return page(items, self.query)


Kind = TypeVar("Kind", bound=Model)
Handler = Callable[[ControlPlane, Call], Model]


def list_locations(_: ControlPlane, call: Call) -> Model:
    found, token = call.paged(catalogue.locations(call.project))
    return api.LocationList(locations=found, next_page_token=token)


def get_location(_: ControlPlane, call: Call) -> Model:
    return catalogue.location(*call.parent)


def generate_service_identity(_: ControlPlane, call: Call) -> Model:
    return api.ServiceIdentityResponse(identity=catalogue.service_identity(*call.parent))


def list_accelerator_types(_: ControlPlane, call: Call) -> Model:
    found, token = call.paged(catalogue.accelerator_types(*call.parent))
    return api.AcceleratorTypeList(accelerator_types=found, next_page_token=token)


def get_accelerator_type(_: ControlPlane, call: Call) -> Model:
    return catalogue.one_accelerator_type(*call.name)


def list_runtime_versions(_: ControlPlane, call: Call) -> Model:
    found, token = call.paged(catalogue.runtime_versions(*call.parent))
    return api.RuntimeVersionList(runtime_versions=found, next_page_token=token)


def get_runtime_version(_: ControlPlane, call: Call) -> Model:
    return catalogue.one_runtime_version(*call.name)


def list_tensorflow_versions(_: ControlPlane, call: Call) -> Model:
    found, token = call.paged(catalogue.tensorflow_versions(*call.parent))
    return api.TensorFlowVersionList(tensorflow_versions=found, next_page_token=token)


def get_tensorflow_version(_: ControlPlane, call: Call) -> Model:
    return catalogue.one_tensorflow_version(*call.name)


def list_reservations(plane: ControlPlane, call: Call) -> Model:
    """The project's, and those shared with it."""
    catalogue.check_any_zone(call.zone)
    return api.ReservationList(reservations=plane.page_of_reservations(call.project, call.zone))


def list_nodes(plane: ControlPlane, call: Call) -> Model:
    found, after = plane.page_of_nodes(*call.parent, *place(call.query))
    return NodesAsJson.model_construct(nodes=found, next_page_token=None if after is None else str(after))


def get_node(plane: ControlPlane, call: Call) -> Model:
    return plane.get_node(*call.name)


def create_node(plane: ControlPlane, call: Call) -> Model:
    node = _body(call, Node)
    name = call.query.get("nodeId") or f"tpu-{secrets.token_hex(4)}"
    slices = _number(call, "numSlices", 1)
    return plane.create_node(*call.parent, name, node, slices, api_version=call.made_in, request_id=call.request_id)


def update_node(plane: ControlPlane, call: Call) -> Model:
    mask = [path for path in call.query.get("updateMask", "").split(",") if path.strip()]
    return plane.update_node(*call.name, mask, _body(call, Node), api_version=call.made_in)


def delete_node(plane: ControlPlane, call: Call) -> Model:
    return plane.act_on_node(*call.name, "delete", api_version=call.made_in, request_id=call.request_id)


def start_node(plane: ControlPlane, call: Call) -> Model:
    return plane.act_on_node(*call.name, "start", api_version=call.made_in)


def stop_node(plane: ControlPlane, call: Call) -> Model:
    return plane.act_on_node(*call.name, "stop", api_version=call.made_in)


def reimage_node(plane: ControlPlane, call: Call) -> Model:
    version = _body(call, actions.ReimageRequest).tensorflow_version or ""
    return plane.act_on_node(*call.name, "reimage", version=version, api_version=call.made_in)


def perform_maintenance(plane: ControlPlane, call: Call) -> Model:
    return plane.act_on_node(*call.name, "restart", api_version=call.made_in)


def simulate_maintenance_event(plane: ControlPlane, call: Call) -> Model:
    """The host of a worker goes down and comes back, and the slice with it."""
    hosted, member = plane.hosted_node(*call.name)
    guest.workers_of(hosted, member, _body(call, actions.MaintenanceEventRequest).worker_ids[:1])
    return plane.act_on_node(*call.name, "restart", api_version=call.made_in)


def get_guest_attributes(plane: ControlPlane, call: Call) -> Model:
    wanted = _body(call, actions.GuestAttributesRequest)
    hosted, member = plane.hosted_node(*call.name)
    workers = guest.workers_of(hosted, member, wanted.worker_ids)
    return guest.attributes(workers, wanted.query_path, plane.ssh_host_key())


def list_operations(plane: ControlPlane, call: Call) -> Model:
    found, token = read_page(lambda first, size: plane.page_of_operations(*call.parent, first, size), call.query)
    return OperationList(operations=found, next_page_token=token)


def get_operation(plane: ControlPlane, call: Call) -> Model:
    return plane.get_operation(*call.name)


def cancel_operation(plane: ControlPlane, call: Call) -> Model:
    plane.cancel_operation(*call.name)
    return actions.Empty()


def delete_operation(plane: ControlPlane, call: Call) -> Model:
    plane.delete_operation(*call.name)
    return actions.Empty()


def wait_operation(plane: ControlPlane, call: Call) -> Model:
    """The operation when it is done, or as it is when the time is over."""
    asked = _body(call, WaitRequest).timeout
    deadline = time.monotonic() + min(WAIT_SECONDS, WAIT_SECONDS if asked is None else seconds(asked))
    operation: Operation = plane.get_operation(*call.name)
    while not operation.done and time.monotonic() < deadline and call.is_awaited() and not plane.ending:
        time.sleep(LOOK_SECONDS)
        operation = plane.get_operation(*call.name)
    return operation


def list_queued_resources(plane: ControlPlane, call: Call) -> Model:
    found, token = read_page(lambda first, size: plane.page_of_queued(*call.parent, first, size), call.query)
    return QueuedResourceList(queued_resources=found, next_page_token=token)


def get_queued_resource(plane: ControlPlane, call: Call) -> Model:
    return plane.get_queued(*call.name)


def create_queued_resource(plane: ControlPlane, call: Call) -> Model:
    asked = _body(call, QueuedResource)
    name = call.query.get("queuedResourceId") or f"qr-{secrets.token_hex(4)}"
    return plane.create_queued(*call.parent, name, asked, api_version=call.made_in, request_id=call.request_id)


def delete_queued_resource(plane: ControlPlane, call: Call) -> Model:
    force = _truth(call, "force")
    return plane.delete_queued(*call.name, force=force, api_version=call.made_in, request_id=call.request_id)


def reset_queued_resource(plane: ControlPlane, call: Call) -> Model:
    return plane.reset_queued(*call.name, api_version=call.made_in)


def maintain_queued_resource(plane: ControlPlane, call: Call) -> Model:
    wanted = _body(call, QueuedMaintenanceRequest).node_names
    return plane.maintain_queued(*call.name, wanted, api_version=call.made_in)


def get_maintenance_info(plane: ControlPlane, call: Call) -> Model:
    """Its nodes, with what is planned for each."""
    found = plane.queued_nodes(*call.name)
    listed = [
        NodeMaintenance(node_name=node.name, node_uid=node.id, upcoming_maintenance=node.upcoming_maintenance)
        for node in found
    ]
    return MaintenanceInfo(node_upcoming_maintenances=listed)


HANDLERS: dict[str, Handler] = {
    "list": list_locations,
    "get": get_location,
    "generateServiceIdentity": generate_service_identity,
    "acceleratorTypes.list": list_accelerator_types,
    "acceleratorTypes.get": get_accelerator_type,
    "runtimeVersions.list": list_runtime_versions,
    "runtimeVersions.get": get_runtime_version,
    "tensorflowVersions.list": list_tensorflow_versions,
    "tensorflowVersions.get": get_tensorflow_version,
    "nodes.list": list_nodes,
    "nodes.create": create_node,
    "nodes.get": get_node,
    "nodes.patch": update_node,
    "nodes.delete": delete_node,
    "nodes.start": start_node,
    "nodes.stop": stop_node,
    "nodes.reimage": reimage_node,
    "nodes.getGuestAttributes": get_guest_attributes,
    "nodes.performMaintenance": perform_maintenance,
    "nodes.simulateMaintenanceEvent": simulate_maintenance_event,
    "operations.list": list_operations,
    "operations.get": get_operation,
    "operations.cancel": cancel_operation,
    "operations.wait": wait_operation,
    "operations.delete": delete_operation,
    "queuedResources.list": list_queued_resources,
    "queuedResources.create": create_queued_resource,
    "queuedResources.get": get_queued_resource,
    "queuedResources.delete": delete_queued_resource,
    "queuedResources.reset": reset_queued_resource,
    "queuedResources.performMaintenanceQueuedResource": maintain_queued_resource,
    "queuedResources.getMaintenanceInfo": get_maintenance_info,
    "reservations.list": list_reservations,
}
"""By the methods' ids; a method that is not among them is answered with UNIMPLEMENTED."""


def unimplemented(method: Method, version: str) -> Unimplemented:
    """That ``version`` does not have the method, or that we do not."""
    others = [other for other in VERSIONS if other in method.versions and method.id in HANDLERS]
    has = f"; {', '.join(others)} has it" if others and version not in others else ""
    return Unimplemented(f"Method {method.full_name(version)} is not implemented{has}")


def _body(call: Call, kind: type[Kind]) -> Kind:
    return call.body if isinstance(call.body, kind) else kind()


def _number(call: Call, name: str, default: int) -> int:
    text = call.query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidArgument.of_fields({name: f"{text!r} is not a whole number from 0"})
    return int(text)


def _truth(call: Call, name: str) -> bool:
    text = (call.query.get(name) or "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise InvalidArgument.of_fields({name: f"{text!r} is neither true nor false"})
    return text in ("true", "1")
