"""What does Cloud TPU say when it has no capacity, quota or time? The texts and details that its clients look for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from backend.hardware import AcceleratorType, UnknownAcceleratorType, accelerator_type
from tpuctl.api.errors import AlreadyExists, ApiError, ResourceExhausted, Unavailable, error_id
from tpuctl.api.names import node_name, queued_name
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.quota import Provisioning
from tpuctl.control.catalogue import WIRE_TYPES, project_number

GOOGLE_RPC = "type.googleapis.com/google.rpc"
REGIONS = "https://cloud.google.com/tpu/docs/regions"
QUOTA_STEMS = {
    "v2": "TPUV2s",
    "v3": "TPUV3s",
    "v4": "TPUV4s",
    "v5e": "TPUV5sLitepod",
    "v5p": "TPUV5P",
    "v6e": "TPUV6E",
    "7x": "TPU7X",
}


@dataclass(frozen=True)
class Asked:
    """A request that a fault may strike: its method, and the resource that it is about. ``id`` may be empty."""

    method: str
    project: str
    zone: str
    id: str
    spec: NodeSpec | None = None

    @property
    def full_name(self) -> str:
        collection = self.method.rpartition(".")[0]
        return f"projects/{self.project}/locations/{self.zone}/{collection}/{self.id}"


def stockout(asked: Asked) -> ApiError:
    return ResourceExhausted(
        f'There is no more capacity in the zone "{asked.zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see {REGIONS}) {error_id()}"
    )


def reservation(_: Asked) -> ApiError:
    return ResourceExhausted(
        "Insufficient reserved capacity. Contact customer support to increase your reservation. " + error_id()
    )


def quota(asked: Asked) -> ApiError:
    """Of the generation and tier that is asked for, in the zone's region."""
    return _exceeded(_quota_name(asked.spec), asked.project, f"region {asked.zone.rpartition('-')[0]}", 0)


def quota_error(project: str, where: str, kind: AcceleratorType, how: Provisioning, limit: int, used: int) -> ApiError:
    """A limit that a request would exceed: ``where`` ("zone us-central2-b"), ``limit`` and what is in use of it."""
    name = _name(kind, cheap=how is Provisioning.SPOT, reserved=how is Provisioning.RESERVED)
    if where.startswith("zone"):
        name = name.replace("PerRegion", "PerZone")
    return _exceeded(name, project, where, limit, f" In use: {used}.")


def _exceeded(name: str, project: str, where: str, limit: int, more: str = "") -> ApiError:
    violation = {
        "subject": f"project:{project_number(project)}",
        "description": f"Quota '{name}' exhausted. Limit {limit} in {where}",
    }
    return ResourceExhausted(
        f"Quota limit '{name}' has been exceeded. Limit: {limit} in {where}.{more}",
        [{"@type": f"{GOOGLE_RPC}.QuotaFailure", "violations": [violation]}],
    )


def rate_limit(asked: Asked, limit: int, *, every: bool = False) -> ApiError:
    """Too many calls of a method, or of all with ``every``, within a minute, as Google's service control says it."""
    called = "" if every else f"{_rpc(asked.method)} "
    metric, consumer = f"Maximum number of {called}requests per minute", project_number(asked.project)
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", called.strip()).lower()
    info = {
        "@type": f"{GOOGLE_RPC}.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {
            "service": "tpu.googleapis.com",
            "consumer": f"projects/{consumer}",
            "quota_metric": f"tpu.googleapis.com/{snake}{'_' if snake else ''}requests",
            "quota_limit": f"{called.strip() or 'Requests'}PerMinutePerProject",
            "quota_limit_value": str(limit),
            "quota_location": "global",
        },
    }
    return ResourceExhausted(
        f"Quota exceeded for quota metric '{metric}' and limit '{metric} per project' of service 'tpu.googleapis.com' "
        f"for consumer 'project_number:{consumer}'.",
        [info],
    )


def _rpc(method: str) -> str:
    """CreateNode for nodes.create, ListNodes for nodes.list."""
    collection, _, verb = method.rpartition(".")
    noun = collection[:1].upper() + collection[1:]
    action = "Update" if verb == "patch" else verb[:1].upper() + verb[1:]
    return f"{action}{noun if verb == 'list' else noun.removesuffix('s')}"


def conflict(asked: Asked) -> ApiError:
    name = queued_name if asked.method.startswith("queuedResources") else node_name
    return AlreadyExists.of(name(asked.project, asked.zone, asked.id))


def unavailable(_: Asked) -> ApiError:
    return Unavailable("The service is currently unavailable.")


ERRORS: dict[str, Callable[[Asked], ApiError]] = {
    "stockout": stockout,
    "stockout-later": stockout,
    "quota": quota,
    "reservation": reservation,
    "conflict": conflict,
    "unavailable": unavailable,
}
"""By the kind of fault."""


def _name(kind: AcceleratorType, *, cheap: bool, reserved: bool) -> str:
    tier = "Preemptible" if cheap else "Reserved" if reserved else ""
    pod = "Pod" if kind.num_hosts > 1 else ""
    return f"{QUOTA_STEMS[kind.generation.name]}{tier}{pod}PerProjectPerRegionForTPUAPI"


def _quota_name(spec: NodeSpec | None) -> str:
    """Such as TPUV6EPreemptiblePerProjectPerRegionForTPUAPI, or, for several hosts, …Pod…."""
    stem, pod = "TPU", ""
    if spec is not None and spec.accelerator_config is not None:
        names = {wire: name for name, wire in WIRE_TYPES.items()}
        stem = QUOTA_STEMS.get(names.get(spec.accelerator_config.type, ""), stem)
    elif spec is not None and spec.accelerator_type:
        try:
            kind = accelerator_type(spec.accelerator_type)
        except UnknownAcceleratorType:
            kind = None
        if kind is not None:
            stem, pod = QUOTA_STEMS[kind.generation.name], "Pod" if kind.num_hosts > 1 else ""
    scheduling = None if spec is None else spec.scheduling_config
    cheap = scheduling is not None and (scheduling.preemptible or scheduling.spot)
    return f"{stem}{'Preemptible' if cheap else ''}{pod}PerProjectPerRegionForTPUAPI"
