"""Queued resources: nodes that are asked for now and made when it is their time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, field_serializer

from tpuctl.api.catalogue import Interval
from tpuctl.api.model import Duration, ListOf, Model, WireEnum, only
from tpuctl.api.nodes import ALPHA, Node, ProvisioningModel, UpcomingMaintenance
from tpuctl.api.operations import Status


class QueuedState(WireEnum):
    STATE_UNSPECIFIED = "STATE_UNSPECIFIED", 0
    CREATING = "CREATING", 1
    ACCEPTED = "ACCEPTED", 2
    PROVISIONING = "PROVISIONING", 3
    FAILED = "FAILED", 4
    DELETING = "DELETING", 5
    ACTIVE = "ACTIVE", 6
    SUSPENDING = "SUSPENDING", 7
    SUSPENDED = "SUSPENDED", 8
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES", 9


class StateInitiator(WireEnum):
    STATE_INITIATOR_UNSPECIFIED = "STATE_INITIATOR_UNSPECIFIED", 0
    USER = "USER", 1
    SERVICE = "SERVICE", 2


class WorkloadType(WireEnum):
    WORKLOAD_TYPE_UNSPECIFIED = "WORKLOAD_TYPE_UNSPECIFIED", 0
    THROUGHPUT_OPTIMIZED = "THROUGHPUT_OPTIMIZED", 1
    AVAILABILITY_OPTIMIZED = "AVAILABILITY_OPTIMIZED", 2


class MultisliceParams(Model):
    node_count: int
    node_id_prefix: str | None = None


class MultiNodeParams(MultisliceParams):
    """The same under the name that v2alpha1 has for it."""

    workload_type: WorkloadType | None = None


class QueuedNodeSpec(Model):
    """``node_id`` names one node; multislice or multi-node params ask for several, PREFIX-0 and on."""

    wire_name: ClassVar[str] = "NodeSpec"

    parent: str | None = None
    node_id: str | None = None
    multislice_params: Annotated[MultisliceParams | None, only("v2")] = None
    multi_node_params: Annotated[MultiNodeParams | None, ALPHA] = None
    node: Node | None = None

    @field_serializer("node", mode="wrap")
    def _template(self, node: Node | None, written: SerializerFunctionWrapHandler) -> Any:
        """A template has no name and no state of its own."""
        value = written(node)
        return value and {key: inner for key, inner in value.items() if key not in ("name", "state")}

    @property
    def several(self) -> MultisliceParams | None:
        return self.multislice_params or self.multi_node_params


class Tpu(Model):
    node_spec: ListOf[QueuedNodeSpec] = Field(default_factory=list)


class QueueingPolicy(Model):
    """When the nodes may be made; at most one of these is given."""

    valid_until_duration: Duration | None = None
    valid_until_time: datetime | None = None
    valid_after_duration: Duration | None = None
    valid_after_time: datetime | None = None
    valid_interval: Interval | None = None


class BestEffort(Model):
    pass


class Spot(Model):
    pass


class Guaranteed(Model):
    min_duration: Duration | None = None
    reserved: Annotated[bool | None, ALPHA] = None


class RunDuration(Model):
    max_run_duration: Duration | None = None
    termination_time: datetime | None = None


class StateData(Model):
    """What there is to say of a state; only FAILED has something."""

    error: Status | None = None


class QueuedResourceState(Model):
    """Exactly one of the ``..._data`` is there, that of the state."""

    state: QueuedState = QueuedState.STATE_UNSPECIFIED
    state_initiator: StateInitiator | None = None
    creating_data: StateData | None = None
    accepted_data: StateData | None = None
    provisioning_data: StateData | None = None
    failed_data: StateData | None = None
    deleting_data: StateData | None = None
    active_data: StateData | None = None
    suspending_data: StateData | None = None
    suspended_data: StateData | None = None


class QueuedResource(Model):
    name: str = ""
    create_time: datetime | None = None
    tpu: Tpu | None = None
    best_effort: Annotated[BestEffort | None, ALPHA] = None
    spot: Spot | None = None
    guaranteed: Guaranteed | None = None
    queueing_policy: QueueingPolicy | None = None
    state: QueuedResourceState | None = None
    reservation_name: str | None = None
    provisioning_model: Annotated[ProvisioningModel | None, ALPHA] = None
    run_duration: Annotated[RunDuration | None, ALPHA] = None


class QueuedResourceList(Model):
    wire_name: ClassVar[str] = "ListQueuedResourcesResponse"

    queued_resources: list[QueuedResource] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None


class ResetRequest(Model):
    wire_name: ClassVar[str] = "ResetQueuedResourceRequest"


class QueuedMaintenanceRequest(Model):
    wire_name: ClassVar[str] = "PerformMaintenanceQueuedResourceRequest"

    node_names: list[str] = Field(default_factory=list)


class NodeMaintenance(Model):
    wire_name: ClassVar[str] = "NodeUpcomingMaintenanceInfo"

    node_name: str
    node_uid: str | None = None
    upcoming_maintenance: UpcomingMaintenance | None = None


class MaintenanceInfo(Model):
    wire_name: ClassVar[str] = "GetMaintenanceInfoResponse"

    node_upcoming_maintenances: list[NodeMaintenance] = Field(default_factory=list)
