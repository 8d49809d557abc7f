"""Which zones there are and what each offers."""

from __future__ import annotations

from backend.hardware import ACCELERATOR_TYPES, AcceleratorType, UnknownAcceleratorType, accelerator_type
from tpuctl.api import catalogue as api
from tpuctl.api.errors import InvalidArgument, NotFound, PermissionDenied
from tpuctl.api.names import accelerator_type_name, location_name
from tpuctl.api.nodes import AcceleratorConfig, GenerationType, NodeSpec

ZONES: dict[str, frozenset[str]] = {
    "asia-east1-c": frozenset({"v2"}),
    "europe-west4-a": frozenset({"v2", "v3"}),
    "us-central1-a": frozenset({"v3"}),
    "us-central1-b": frozenset({"v2", "v3"}),
    "us-central1-c": frozenset({"v2"}),
    "us-central1-f": frozenset({"v2", "v3"}),
}
"""Zones and the generations in them, after Cloud TPU's regions and zones page."""

WIRE_TYPES = {"v2": GenerationType.V2, "v3": GenerationType.V3}


def check_zone(zone: str) -> str:
    """``zone`` if there is one of that name. Raises PermissionDenied, as Cloud TPU does."""
    if zone in ZONES:
        return zone
    raise PermissionDenied(f"Location {zone} is not found or access is unauthorized. Locations: {', '.join(ZONES)}.")


def check_type(zone: str, spec: NodeSpec) -> AcceleratorType:
    """The accelerator type a new node asks for in ``zone``. Raises InvalidArgument."""
    if spec.accelerator_type and spec.accelerator_config:
        raise InvalidArgument("give either acceleratorType or acceleratorConfig, not both")
    if spec.accelerator_config:
        found = _by_topology(spec.accelerator_config)
    elif spec.accelerator_type:
        found = _by_name(spec.accelerator_type)
    else:
        raise InvalidArgument("acceleratorType is required, such as v3-8")
    if found.generation.name not in ZONES[zone]:
        offering = ", ".join(name for name, offered in ZONES.items() if found.generation.name in offered)
        raise InvalidArgument(f"the accelerator {found.name} was not found in zone {zone}; it is offered in {offering}")
    return found


def locations(project: str) -> list[api.Location]:
    return [location(project, zone) for zone in ZONES]


def location(project: str, zone: str) -> api.Location:
    return api.Location(name=location_name(project, check_zone(zone)), location_id=zone)


def accelerator_types(project: str, zone: str) -> list[api.AcceleratorType]:
    """The types offered in ``zone``, or each once for all zones (``-``)."""
    if zone == "-":
        return list({row.type: row for each in ZONES for row in accelerator_types(project, each)}.values())
    offered = ZONES[check_zone(zone)]
    return [_view(project, zone, row) for row in ACCELERATOR_TYPES.values() if row.generation.name in offered]


def one_accelerator_type(project: str, zone: str, name: str) -> api.AcceleratorType:
    for row in accelerator_types(project, zone):
        if row.type == name:
            return row
    raise NotFound.of(accelerator_type_name(project, zone, name))


def _view(project: str, zone: str, row: AcceleratorType) -> api.AcceleratorType:
    config = AcceleratorConfig(type=WIRE_TYPES[row.generation.name], topology=row.topology)
    name = accelerator_type_name(project, zone, row.name)
    return api.AcceleratorType(name=name, type=row.name, accelerator_configs=[config])


def _by_name(name: str) -> AcceleratorType:
    try:
        return accelerator_type(name)
    except UnknownAcceleratorType as error:
        raise InvalidArgument(str(error)) from error


def _by_topology(config: AcceleratorConfig) -> AcceleratorType:
    for row in ACCELERATOR_TYPES.values():
        if WIRE_TYPES[row.generation.name] is config.type and row.topology == config.topology:
            return row
    raise InvalidArgument(f"there is no {config.type} slice of topology {config.topology}")
