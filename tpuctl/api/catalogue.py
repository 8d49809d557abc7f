"""What can be asked for: locations, accelerator types, software versions, reservations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from tpuctl.api.model import Int64, Model, WireEnum, only
from tpuctl.api.nodes import AcceleratorConfig


class Location(Model):
    name: str
    location_id: str
    display_name: str | None = None


class LocationList(Model):
    wire_name: ClassVar[str] = "ListLocationsResponse"

    locations: list[Location] = Field(default_factory=list)
    next_page_token: str | None = None


class AcceleratorType(Model):
    name: str
    type: str
    accelerator_configs: Annotated[list[AcceleratorConfig], only("v2", "v2alpha1")] = Field(default_factory=list)


class AcceleratorTypeList(Model):
    wire_name: ClassVar[str] = "ListAcceleratorTypesResponse"

    accelerator_types: list[AcceleratorType] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None


class RuntimeVersion(Model):
    """The software of a TPU VM."""

    name: str
    version: str


class RuntimeVersionList(Model):
    wire_name: ClassVar[str] = "ListRuntimeVersionsResponse"

    runtime_versions: list[RuntimeVersion] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None


class TensorFlowVersion(Model):
    name: str
    version: str


class TensorFlowVersionList(Model):
    wire_name: ClassVar[str] = "ListTensorFlowVersionsResponse"

    tensorflow_versions: list[TensorFlowVersion] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None


class ReservationState(WireEnum):
    STATE_UNSPECIFIED = "STATE_UNSPECIFIED", 0
    APPROVED = "APPROVED", 3
    PROVISIONING = "PROVISIONING", 4
    ACTIVE = "ACTIVE", 5
    DEPROVISIONING = "DEPROVISIONING", 6
    EXPIRED = "EXPIRED", 7
    FAILED = "FAILED", 8


class CapacityUnits(WireEnum):
    CAPACITY_UNITS_UNSPECIFIED = "CAPACITY_UNITS_UNSPECIFIED", 0
    CORES = "CORES", 1
    CHIPS = "CHIPS", 2


class Interval(Model):
    """From ``start_time`` until before ``end_time``."""

    start_time: datetime | None = None
    end_time: datetime | None = None


class Usage(Model):
    total: Int64 | None = None


class Standard(Model):
    size: int | None = None
    capacity_units: CapacityUnits | None = None
    resource_type: str | None = None
    interval: Interval | None = None
    usage: Usage | None = None


class Reservation(Model):
    name: str
    standard: Standard | None = None
    state: ReservationState | None = None


class ReservationList(Model):
    wire_name: ClassVar[str] = "ListReservationsResponse"

    reservations: list[Reservation] = Field(default_factory=list)
    next_page_token: str | None = None


class ServiceIdentityRequest(Model):
    wire_name: ClassVar[str] = "GenerateServiceIdentityRequest"


class ServiceIdentity(Model):
    email: str


class ServiceIdentityResponse(Model):
    wire_name: ClassVar[str] = "GenerateServiceIdentityResponse"

    identity: ServiceIdentity
