"""Nodes: the slices of Cloud TPU's v2 API."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tpuctl.api.model import ListOf, Model, WireEnum


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


class AcceleratorConfig(Model):
    type: GenerationType
    topology: str


class AccessConfig(Model):
    external_ip: str | None = None


class NetworkEndpoint(Model):
    ip_address: str
    port: int
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


class AttachedDisk(Model):
    source_disk: str | None = None
    mode: DiskMode | None = None


class ShieldedInstanceConfig(Model):
    enable_secure_boot: bool | None = None


class CustomerEncryptionKey(Model):
    kms_key_name: str | None = None


class BootDiskConfig(Model):
    customer_encryption_key: CustomerEncryptionKey | None = None


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


class Node(NodeSpec):
    """A slice. ``id`` is an int64 written in decimal; ``network_endpoints`` has one entry a worker."""

    name: str = ""
    id: str | None = None
    state: NodeState = NodeState.STATE_UNSPECIFIED
    health: NodeHealth | None = None
    health_description: str | None = None
    network_endpoints: ListOf[NetworkEndpoint] | None = None
    create_time: datetime | None = None
    api_version: ApiVersion | None = None
    multislice_node: bool | None = None
    queued_resource: str | None = None


class NodeList(Model):
    nodes: list[Node] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None
