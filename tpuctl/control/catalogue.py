"""Which zones there are and what each offers."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from backend.hardware import (
    ACCELERATOR_TYPES,
    AcceleratorType,
    InvalidTopology,
    UnknownAcceleratorType,
    accelerator_type,
    slice_of,
)
from tpuctl.api import catalogue as api
from tpuctl.api.errors import InvalidArgument, NotFound, PermissionDenied, bad_request
from tpuctl.api.names import (
    accelerator_type_name,
    location_name,
    runtime_version_name,
    tensorflow_version_name,
)
from tpuctl.api.nodes import AcceleratorConfig, GenerationType, NodeSpec

_DEVICES, _PODS = "single host", "pod slices"

OFFERS: tuple[tuple[str, str, str], ...] = (
    ("v2", _DEVICES, "us-central1-b us-central1-c us-central1-f europe-west4-a asia-east1-c"),
    ("v2", _PODS, "us-central1-a europe-west4-a"),
    ("v3", _DEVICES, "us-central1-a us-central1-b us-central1-f europe-west4-a"),
    ("v3", _PODS, "europe-west4-a us-east1-d"),
    ("v4", "", "us-central2-b"),
    ("v5e", "", "us-central1-a us-south1-a us-west1-c us-west4-a us-east5-a us-east5-b us-east5-c europe-west4-b"),
    ("v5p", "", "us-central1-a us-east5-a europe-west4-b"),
    (
        "v6e",
        "",
        "us-central1-b us-east1-d us-east5-a us-east5-b us-south1-ai1b europe-west4-a asia-northeast1-b "
        "southamerica-west1-a",
    ),
    ("7x", "", "us-central1-c us-central1-ai1a"),
)
"""Which generation is offered where, after Cloud TPU's regions and zones page; of v2 and v3 also in which sizes."""

ZONES = tuple(sorted({zone for _, _, zones in OFFERS for zone in zones.split()}))

WIRE_TYPES = {
    "v2": GenerationType.V2,
    "v3": GenerationType.V3,
    "v4": GenerationType.V4,
    "v5e": GenerationType.V5LITE_POD,
    "v5p": GenerationType.V5P,
    "v6e": GenerationType.V6E,
}
"""Generations that an accelerator config can name. 7x has none in the Cloud TPU API: only acceleratorType names it."""


def check_zone(zone: str) -> str:
    """``zone`` if there is one of that name. Raises PermissionDenied, as Cloud TPU does."""
    if zone in ZONES:
        return zone
    raise PermissionDenied(f"Location {zone} is not found or access is unauthorized. Locations: {', '.join(ZONES)}.")


def check_type(zone: str, spec: NodeSpec) -> AcceleratorType:
    """The slice a new node asks for in ``zone``. Raises InvalidArgument."""
    if spec.accelerator_type and spec.accelerator_config:
        raise InvalidArgument("give either acceleratorType or acceleratorConfig, not both")
    if spec.accelerator_config:
        found = _by_topology(spec.accelerator_config)
    elif spec.accelerator_type:
        found = _by_name(spec.accelerator_type)
    else:
        raise InvalidArgument("acceleratorType is required, such as v3-8")
    offering = zones_of(found)
    if zone not in offering:
        raise bad_request(
            f"the accelerator {found.name} was not found in zone {zone}; it is offered in {', '.join(offering)}"
        )
    return found


def zones_of(kind: AcceleratorType) -> list[str]:
    """The zones that offer a slice of this kind."""
    size = _DEVICES if kind.num_hosts == 1 else _PODS
    return sorted(
        {
            zone
            for generation, sizes, zones in OFFERS
            if generation == kind.generation.name and sizes in ("", size)
            for zone in zones.split()
        }
    )


def offers_pods(zone: str, generation: str) -> bool:
    """Whether there are slices of a generation in a zone."""
    return any(generation == offered and zone in zones.split() for offered, _, zones in OFFERS)


def locations(project: str) -> list[api.Location]:
    return [location(project, zone) for zone in ZONES]


def location(project: str, zone: str) -> api.Location:
    return api.Location(name=location_name(project, check_zone(zone)), location_id=zone)


def accelerator_types(project: str, zone: str) -> list[api.AcceleratorType]:
    """The types offered in ``zone``, or each once for all zones (``-``), generation by generation."""
    where = {row.name: zones_of(row) for row in ACCELERATOR_TYPES.values()}
    if zone != "-":
        check_zone(zone)
    return [
        _view(project, where[row.name][0] if zone == "-" else zone, row)
        for row in ACCELERATOR_TYPES.values()
        if zone == "-" or zone in where[row.name]
    ]


def one_accelerator_type(project: str, zone: str, name: str) -> api.AcceleratorType:
    for row in accelerator_types(project, zone):
        if row.type == name:
            return row
    raise NotFound.of(accelerator_type_name(project, zone, name))


RUNTIME_VERSIONS = (
    "tpu-ubuntu2204-base",
    "tpu-vm-base",
    "tpu-vm-pt-1.12",
    "tpu-vm-pt-2.0",
    "tpu-vm-tf-2.16.1-pjrt",
    "tpu-vm-tf-2.16.1-pod-pjrt",
    "v2-alpha",
    "v2-alpha-tpuv4",
    "v2-alpha-tpuv4-pod",
    "v2-alpha-tpuv5",
    "v2-alpha-tpuv5-lite",
    "v2-alpha-tpuv6e",
)
"""Of TPU VMs; every zone has them, and every VM here runs what is installed on this machine."""
TENSORFLOW_VERSIONS = ("1.15", "2.11.0", "2.12.0", "2.15.0", "nightly")
"""Of the first version's nodes."""


def check_any_zone(zone: str) -> str:
    """``zone`` if it is one or all of them (``-``). Raises PermissionDenied."""
    return zone if zone == "-" else check_zone(zone)


def runtime_versions(project: str, zone: str) -> list[api.RuntimeVersion]:
    check_any_zone(zone)
    return [
        api.RuntimeVersion(name=runtime_version_name(project, zone, version), version=version)
        for version in RUNTIME_VERSIONS
    ]


def one_runtime_version(project: str, zone: str, version: str) -> api.RuntimeVersion:
    return _named(runtime_versions(project, zone), runtime_version_name(project, zone, version))


def tensorflow_versions(project: str, zone: str) -> list[api.TensorFlowVersion]:
    check_any_zone(zone)
    return [
        api.TensorFlowVersion(name=tensorflow_version_name(project, zone, version), version=version)
        for version in TENSORFLOW_VERSIONS
    ]


def one_tensorflow_version(project: str, zone: str, version: str) -> api.TensorFlowVersion:
    return _named(tensorflow_versions(project, zone), tensorflow_version_name(project, zone, version))


_Row = TypeVar("_Row", api.RuntimeVersion, api.TensorFlowVersion)


def _named(rows: list[_Row], name: str) -> _Row:
    """The one with a full name. Raises NotFound."""
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        raise NotFound.of(name)
    return found


def project_number(project: str) -> str:
    """Twelve digits that are always the same for a project; a number stays what it is."""
    if project.isdigit():
        return project
    return str(10**11 + int.from_bytes(hashlib.sha256(project.encode()).digest()[:8]) % (9 * 10**11))


def service_identity(project: str, zone: str) -> api.ServiceIdentity:
    check_zone(zone)
    return api.ServiceIdentity(email=f"service-{project_number(project)}@cloud-tpu.iam.gserviceaccount.com")


def _view(project: str, zone: str, row: AcceleratorType) -> api.AcceleratorType:
    config = config_of(row)
    name = accelerator_type_name(project, zone, row.name)
    return api.AcceleratorType(name=name, type=row.name, accelerator_configs=[] if config is None else [config])


def config_of(kind: AcceleratorType) -> AcceleratorConfig | None:
    """The slice as generation and topology; None if the Cloud TPU API cannot name its generation so."""
    wire = WIRE_TYPES.get(kind.generation.name)
    return None if wire is None else AcceleratorConfig(type=wire, topology=kind.topology)


def _by_name(name: str) -> AcceleratorType:
    try:
        return accelerator_type(name)
    except UnknownAcceleratorType as error:
        raise InvalidArgument(str(error)) from error


def _by_topology(config: AcceleratorConfig) -> AcceleratorType:
    for name, wire in WIRE_TYPES.items():
        if wire is config.type:
            try:
                return slice_of(name, config.topology)
            except InvalidTopology as error:
                raise InvalidArgument(
                    f'Cloud TPU received a bad request. Invalid AcceleratorConfig: type:{wire} topology:"'
                    f'{config.topology}". {error}'
                ) from error
    names = ", ".join(WIRE_TYPES.values())
    raise InvalidArgument(f"acceleratorConfig needs a type, one of {names}")
