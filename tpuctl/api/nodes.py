"""Nodes: slices, with the fields of all versions of the Cloud TPU API but the first (legacy.py)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tpuctl.api.model import Int64, ListOf, Model, WireEnum, only

ALPHA = only("v2alpha1")
CONTIGUOUS = "tpuctl-contiguous"
"""The label of a node, "true", that asks for one box of chips also where switches could join any cubes."""


class NodeState(WireEnum):
    STATE_UNSPECIFIED = "STATE_UNSPECIFIED", 0
    CREATING = "CREATING", 1
    READY = "READY", 2
    RESTARTING = "RESTARTING", 3
    REIMAGING = "REIMAGING", 4
    DELETING = "DELETING", 5
    REPAIRING = "REPAIRING", 6
    STOPPED = "STOPPED", 8
    STOPPING = "STOPPING", 9
    STARTING = "STARTING", 10
    PREEMPTED = "PREEMPTED", 11
    TERMINATED = "TERMINATED", 12
    HIDING = "HIDING", 13
    HIDDEN = "HIDDEN", 14
    UNHIDING = "UNHIDING", 15
    UNKNOWN = "UNKNOWN", 16


class NodeHealth(WireEnum):
    HEALTH_UNSPECIFIED = "HEALTH_UNSPECIFIED", 0
    HEALTHY = "HEALTHY", 1
    TIMEOUT = "TIMEOUT", 3
    UNHEALTHY_TENSORFLOW = "UNHEALTHY_TENSORFLOW", 4
    UNHEALTHY_MAINTENANCE = "UNHEALTHY_MAINTENANCE", 5


class ApiVersion(WireEnum):
    API_VERSION_UNSPECIFIED = "API_VERSION_UNSPECIFIED", 0
    V1_ALPHA1 = "V1_ALPHA1", 1
    V1 = "V1", 2
    V2_ALPHA1 = "V2_ALPHA1", 3
    V2 = "V2", 4


class GenerationType(WireEnum):
    TYPE_UNSPECIFIED = "TYPE_UNSPECIFIED", 0
    V2 = "V2", 2
    V3 = "V3", 3
    V4 = "V4", 7
    V5LITE_POD = "V5LITE_POD", 9
    V5P = "V5P", 10
    V6E = "V6E", 11


class DiskMode(WireEnum):
    DISK_MODE_UNSPECIFIED = "DISK_MODE_UNSPECIFIED", 0
    READ_WRITE = "READ_WRITE", 1
    READ_ONLY = "READ_ONLY", 2


class ProvisioningModel(WireEnum):
    PROVISIONING_MODEL_UNSPECIFIED = "PROVISIONING_MODEL_UNSPECIFIED", 0
    STANDARD = "STANDARD", 1
    SPOT = "SPOT", 2
    RESERVATION_BOUND = "RESERVATION_BOUND", 3
    FLEX_START = "FLEX_START", 4


class SymptomType(WireEnum):
    SYMPTOM_TYPE_UNSPECIFIED = "SYMPTOM_TYPE_UNSPECIFIED", 0
    LOW_MEMORY = "LOW_MEMORY", 1
    OUT_OF_MEMORY = "OUT_OF_MEMORY", 2
    EXECUTE_TIMED_OUT = "EXECUTE_TIMED_OUT", 3
    MESH_BUILD_FAIL = "MESH_BUILD_FAIL", 4
    HBM_OUT_OF_MEMORY = "HBM_OUT_OF_MEMORY", 5
    PROJECT_ABUSE = "PROJECT_ABUSE", 6


class MaintenanceType(WireEnum):
    UNKNOWN_TYPE = "UNKNOWN_TYPE", 0
    SCHEDULED = "SCHEDULED", 1
    UNSCHEDULED = "UNSCHEDULED", 2


class MaintenanceStatus(WireEnum):
    UNKNOWN = "UNKNOWN", 0
    PENDING = "PENDING", 1
    ONGOING = "ONGOING", 2


class ProtectionTier(WireEnum):
    PROTECTION_TIER_UNSPECIFIED = "PROTECTION_TIER_UNSPECIFIED", 0
    STANDARD = "STANDARD", 1
    CAPACITY_OPTIMIZED = "CAPACITY_OPTIMIZED", 2


class AcceleratorConfig(Model):
    type: GenerationType
    topology: str


class AccessConfig(Model):
    external_ip: str | None = None


class NetworkEndpoint(Model):
    ip_address: str = ""
    port: int = 0
    access_config: AccessConfig | None = None


class NetworkConfig(Model):
    network: str | None = None
    subnetwork: str | None = None
    enable_external_ips: bool | None = None
    can_ip_forward: bool | None = None
    queue_count: int | None = None


class ServiceAccount(Model):
    email: str | None = None
    scope: list[str] | None = None


class SchedulingConfig(Model):
    preemptible: bool | None = None
    reserved: bool | None = None
    spot: bool | None = None
    provisioning_model: Annotated[ProvisioningModel | None, ALPHA] = None
    reservation_name: Annotated[str | None, ALPHA] = None
    termination_timestamp: Annotated[datetime | None, ALPHA] = None


class AttachedDisk(Model):
    source_disk: str | None = None
    mode: DiskMode | None = None
    worker_ids: Annotated[list[str] | None, ALPHA] = None


class ShieldedInstanceConfig(Model):
    enable_secure_boot: bool | None = None


class CustomerEncryptionKey(Model):
    kms_key_name: str | None = None


class BootDiskConfig(Model):
    customer_encryption_key: CustomerEncryptionKey | None = None
    disk_size_gb: Annotated[Int64 | None, ALPHA] = None
    enable_confidential_compute: Annotated[bool | None, ALPHA] = None
    provisioned_iops: Annotated[Int64 | None, ALPHA] = None
    provisioned_throughput: Annotated[Int64 | None, ALPHA] = None
    source_image: Annotated[str | None, ALPHA] = None
    storage_pool: Annotated[str | None, ALPHA] = None


class Symptom(Model):
    create_time: datetime | None = None
    symptom_type: SymptomType | None = None
    details: str | None = None
    worker_id: str | None = None


class UpcomingMaintenance(Model):
    type: MaintenanceType | None = None
    can_reschedule: bool | None = None
    window_start_time: str | None = None
    window_end_time: str | None = None
    latest_window_start_time: str | None = None
    maintenance_status: MaintenanceStatus | None = None


class NodeSpec(Model):
    """The part of a node its creator chooses."""

    accelerator_type: str | None = None
    accelerator_config: AcceleratorConfig | None = None
    runtime_version: str | None = None
    description: str | None = Field(default=None, max_length=512)
    cidr_block: str | None = None
    network_config: NetworkConfig | None = None
    network_configs: ListOf[NetworkConfig] | None = None
    service_account: ServiceAccount | None = None
    scheduling_config: SchedulingConfig | None = None
    data_disks: ListOf[AttachedDisk] | None = None
    labels: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    tags: list[str] | None = None
    shielded_instance_config: ShieldedInstanceConfig | None = None
    boot_disk_config: BootDiskConfig | None = None
    autocheckpoint_enabled: Annotated[bool | None, ALPHA] = None


class Node(NodeSpec):
    """A slice. ``id`` is an int64 written in decimal; ``network_endpoints`` has one entry a worker."""

    name: str = ""
    id: Int64 | None = None
    state: NodeState = NodeState.STATE_UNSPECIFIED
    health: NodeHealth | None = None
    health_description: str | None = None
    network_endpoints: ListOf[NetworkEndpoint] | None = None
    create_time: datetime | None = None
    api_version: ApiVersion | None = None
    multislice_node: bool | None = None
    queued_resource: str | None = None
    symptoms: ListOf[Symptom] | None = None
    upcoming_maintenance: UpcomingMaintenance | None = None
    protection_tier: Annotated[ProtectionTier | None, only("v2")] = None


class NodeJson(dict[str, Any]):
    """A node in JSON, with the fields of all versions; and, once they were asked for, with those of each version."""

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__(value)
        self.shown: dict[str, dict[str, Any]] = {}


class NodesAsJson(Model):
    """A NodeList whose nodes are in JSON already, with the fields of all versions."""

    wire_name: ClassVar[str] = "ListNodesResponse"

    nodes: list[Any] = Field(default_factory=list)
    next_page_token: str | None = None


class NodeList(Model):
    wire_name: ClassVar[str] = "ListNodesResponse"

    nodes: list[Node] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None
