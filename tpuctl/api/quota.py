"""Quotas: how many cores a project may have in a region, and requests for more."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tpuctl.api.model import Model

EVERY = "*"


class Provisioning(StrEnum):
    """How a slice is come by: each has quotas of its own."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


class Quota(Model):
    """A limit, in TensorCores. ``region`` may be ``*``: any; a region's own limit goes before."""

    project: str
    region: str = EVERY
    generation: str
    kind: Provisioning = Provisioning.ON_DEMAND
    limit: int = Field(ge=0)
    in_use: int = 0


class QuotaList(Model):
    quotas: list[Quota] = Field(default_factory=list)


class RequestState(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    DENIED = "DENIED"


class QuotaRequest(Model):
    """A limit that somebody asks for; an admin approves or denies it."""

    id: str = ""
    project: str = ""
    region: str = EVERY
    generation: str
    kind: Provisioning = Provisioning.ON_DEMAND
    limit: int = Field(ge=0)
    reason: str = Field(default="", max_length=1000)
    state: RequestState = RequestState.PENDING
    create_time: datetime | None = None


class QuotaRequestList(Model):
    requests: list[QuotaRequest] = Field(default_factory=list)
