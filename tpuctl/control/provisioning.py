"""How is a node come by, and from which reservation? From what was asked of its scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuctl.api.nodes import ProvisioningModel, SchedulingConfig
from tpuctl.api.quota import Provisioning


def scheduling_of(spec: Mapping[str, Any]) -> SchedulingConfig:
    return SchedulingConfig.model_validate(spec.get("schedulingConfig") or {})


def provisioning_of(spec: Mapping[str, Any]) -> Provisioning:
    """Of a node with that ``spec``, as it is stored."""
    scheduling = scheduling_of(spec)
    if scheduling.spot or scheduling.preemptible or scheduling.provisioning_model is ProvisioningModel.SPOT:
        return Provisioning.SPOT
    return Provisioning.ON_DEMAND if reservation_of(spec) is None else Provisioning.RESERVED


def reservation_of(spec: Mapping[str, Any]) -> str | None:
    """The name of the reservation, "" for any, None for none."""
    scheduling = scheduling_of(spec)
    if scheduling.reservation_name:
        return scheduling.reservation_name.rpartition("/")[2]
    return "" if scheduling.reserved else None
