"""Reservations as tpuctl's own API makes them: chips of a generation in a zone, kept for some projects."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tpuctl.api.model import Model


class ReservationSpec(Model):
    """``chips`` of a generation, from ``start`` until ``end`` (None: at once, without end).

    They are ``project``'s, and those' that it is ``shared_with``.
    """

    name: str
    project: str = ""
    zone: str
    generation: str
    chips: int = Field(gt=0, le=10_000_000)
    start: datetime | None = None
    end: datetime | None = None
    shared_with: list[str] = Field(default_factory=list, max_length=100)
    in_use: int = 0


class ReservationSpecList(Model):
    reservations: list[ReservationSpec] = Field(default_factory=list)
