"""What is asked of a node beside its creation, and what is answered."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tpuctl.api.model import ListOf, Model


class Empty(Model):
    pass


class StartRequest(Model):
    wire_name: ClassVar[str] = "StartNodeRequest"


class StopRequest(Model):
    wire_name: ClassVar[str] = "StopNodeRequest"


class ReimageRequest(Model):
    wire_name: ClassVar[str] = "ReimageNodeRequest"

    tensorflow_version: str | None = None


class MaintenanceRequest(Model):
    wire_name: ClassVar[str] = "PerformMaintenanceRequest"


class MaintenanceEventRequest(Model):
    """Only the first of ``worker_ids`` counts; without any it is worker 0."""

    wire_name: ClassVar[str] = "SimulateMaintenanceEventRequest"

    worker_ids: list[str] = Field(default_factory=list)


class GuestAttributesRequest(Model):
    """``query_path`` is empty, ``NAMESPACE/`` or ``NAMESPACE/KEY``; no ``worker_ids``, or an empty one, are all."""

    wire_name: ClassVar[str] = "GetGuestAttributesRequest"

    query_path: str = ""
    worker_ids: list[str] = Field(default_factory=list)


class GuestAttributesEntry(Model):
    namespace: str
    key: str
    value: str


class GuestAttributesValue(Model):
    items: ListOf[GuestAttributesEntry] = Field(default_factory=list)


class GuestAttributes(Model):
    """Those of one worker."""

    query_path: str = ""
    query_value: GuestAttributesValue = GuestAttributesValue()


class GuestAttributesResponse(Model):
    """One entry a worker, in their order."""

    wire_name: ClassVar[str] = "GetGuestAttributesResponse"

    guest_attributes: ListOf[GuestAttributes] = Field(default_factory=list)
