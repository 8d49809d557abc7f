"""What can be asked for: locations and accelerator types."""

from __future__ import annotations

from pydantic import Field

from tpuctl.api.model import Model
from tpuctl.api.nodes import AcceleratorConfig


class Location(Model):
    name: str
    location_id: str
    display_name: str | None = None


class LocationList(Model):
    locations: list[Location] = Field(default_factory=list)
    next_page_token: str | None = None


class AcceleratorType(Model):
    name: str
    type: str
    accelerator_configs: list[AcceleratorConfig] = Field(default_factory=list)


class AcceleratorTypeList(Model):
    accelerator_types: list[AcceleratorType] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None
