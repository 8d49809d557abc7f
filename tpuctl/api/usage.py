"""What slices have used, and what that would cost at Google's."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tpuctl.api.model import Model
from tpuctl.api.quota import Provisioning


class UsageBy(StrEnum):
    PROJECT = "project"
    SLICE = "slice"
    JOB = "job"


class Usage(Model):
    """Chip-hours of slices that were READY. ``cost`` is in US dollars; None where a price is not known."""

    name: str
    generation: str
    kind: Provisioning
    chip_hours: float
    cost: float | None = None


class UsageList(Model):
    since: datetime
    until: datetime
    rows: list[Usage] = Field(default_factory=list)


class Size(StrEnum):
    """v2 and v3 have prices of their own for single devices and for slices of pods."""

    HOST = "single host"
    PODS = "pod slices"


class Price(Model):
    """US dollars for one chip and one hour; ``where`` are regions by how their names begin, "" for all."""

    generation: str
    size: Size | None = None
    kind: Provisioning
    where: str = ""
    dollars: float


class PriceList(Model):
    source: str
    prices: list[Price] = Field(default_factory=list)


class Budget(Model):
    """US dollars that a project may spend in a calendar month (UTC), and has; ``stop`` ends its slices then."""

    project: str
    amount: float
    stop: bool = False
    spent: float = 0.0


class BudgetList(Model):
    budgets: list[Budget] = Field(default_factory=list)
