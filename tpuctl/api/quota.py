"""Quotas: how many cores or chips a project may have, how often it may call, and requests for more."""

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


class Unit(StrEnum):
    """What a limit counts: chips or TensorCores, as Cloud TPU does, or calls of its API."""

    CORES = "cores"
    CHIPS = "chips"
    REQUESTS = "requests a minute"


class Limit(Model):
    """So many cores or chips of a ``generation`` by one kind of provisioning, or calls of a ``method``.

    ``location`` is a zone, a region, or ``*`` for every region without a limit of its own. A slice has to stay within
    that of its zone and that of its region. ``method`` is such as ``nodes.create``, or ``*``: all together.
    """

    location: str = EVERY
    generation: str = ""
    kind: Provisioning = Provisioning.ON_DEMAND
    method: str = ""
    limit: int = Field(ge=0)
    unit: Unit = Unit.CORES


class Quota(Limit):
    """A limit of a project, and what is in use of it."""

    project: str
    in_use: int = 0


class QuotaList(Model):
    quotas: list[Quota] = Field(default_factory=list)


class RequestState(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    DENIED = "DENIED"


class QuotaRequest(Limit):
    """A limit that somebody asks for; an admin approves or denies it."""

    id: str = ""
    project: str = ""
    reason: str = Field(default="", max_length=1000)
    state: RequestState = RequestState.PENDING
    create_time: datetime | None = None


class QuotaRequestList(Model):
    requests: list[QuotaRequest] = Field(default_factory=list)
