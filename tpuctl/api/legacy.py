"""Nodes as the first version of the API has them: Cloud TPU nodes, without TPU VMs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from tpuctl.api.model import ListOf, Model, only
from tpuctl.api.nodes import ApiVersion, NetworkConfig, Node, NodeHealth, NodeSpec, NodeState, SchedulingConfig, Symptom

TPU_PORT = "8470"
MODEL = only("v1alpha1")


class LegacyEndpoint(Model):
    wire_name: ClassVar[str] = "NetworkEndpoint"

    ip_address: str = ""
    port: int = 0


class LegacyScheduling(Model):
    wire_name: ClassVar[str] = "SchedulingConfig"

    preemptible: bool | None = None
    reserved: bool | None = None


class LegacyNode(Model):
    wire_name: ClassVar[str] = "Node"

    name: str = ""
    description: str | None = Field(default=None, max_length=512)
    accelerator_type: str | None = None
    ip_address: str | None = None
    port: str | None = None
    state: NodeState = NodeState.STATE_UNSPECIFIED
    health: NodeHealth | None = None
    health_description: str | None = None
    tensorflow_version: str | None = None
    network: str | None = None
    cidr_block: str | None = None
    service_account: str | None = None
    create_time: datetime | None = None
    scheduling_config: LegacyScheduling | None = None
    network_endpoints: ListOf[LegacyEndpoint] | None = None
    labels: dict[str, str] | None = None
    use_service_networking: bool | None = None
    api_version: ApiVersion | None = None
    symptoms: ListOf[Symptom] | None = None
    model_name: Annotated[str | None, MODEL] = None
    model_base_path: Annotated[str | None, MODEL] = None
    model_config_file: Annotated[str | None, MODEL, Field(alias="modelConfigFile")] = None
    platform_config_file: Annotated[str | None, MODEL] = None


SAME = ("description", "accelerator_type", "cidr_block", "labels")
"""Fields that a creator chooses and that mean the same in every version."""
SAME_OUT = (*SAME, "name", "state", "health", "health_description", "create_time", "api_version", "symptoms")


def to_legacy(node: Node) -> LegacyNode:
    """The node as the first version shows it."""
    endpoints = node.network_endpoints or []
    scheduling, network, account = node.scheduling_config, node.network_config, node.service_account
    return LegacyNode(
        **{name: getattr(node, name) for name in SAME_OUT},
        tensorflow_version=node.runtime_version,
        network=None if network is None else network.network,
        service_account=None if account is None else account.email,
        scheduling_config=None if scheduling is None else _alike(scheduling, LegacyScheduling),
        network_endpoints=[LegacyEndpoint(ip_address=end.ip_address, port=end.port) for end in endpoints] or None,
        ip_address=endpoints[0].ip_address if endpoints else None,
        port=TPU_PORT if endpoints else None,
    )


def from_legacy(node: LegacyNode) -> NodeSpec:
    """What a client of the first version asks for. Its models and its service networking are not ours to run."""
    scheduling = node.scheduling_config
    return NodeSpec(
        **{name: getattr(node, name) for name in SAME},
        runtime_version=node.tensorflow_version,
        network_config=NetworkConfig(network=node.network) if node.network else None,
        scheduling_config=None if scheduling is None else _alike(scheduling, SchedulingConfig),
    )


Kind = TypeVar("Kind", LegacyScheduling, SchedulingConfig)


def _alike(scheduling: LegacyScheduling | SchedulingConfig, kind: type[Kind]) -> Kind:
    return kind(preemptible=scheduling.preemptible, reserved=scheduling.reserved)
