"""Faults of the API, as tpuctl's own API has them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tpuctl.api.model import Model


class ApiFault(Model):
    """A rule by which a fault strikes: what matches it, how often, and what it does.

    Of what matches ``name``, a pattern such as ``train-*`` of ids, the fault strikes each with ``probability``, drawn
    with ``seed``, and no more than ``count`` in all (None: no end). ``method`` is one of the Cloud TPU API, such as
    ``nodes.get``. Times are in seconds: ``after`` from when a node is READY on, and ``seconds`` for which it lasts
    (None: until it is cleared). ``limit`` is a number of requests a minute. ``at_step`` is the step that the job on the
    node has logged when it happens, in an attempt that comes to it from below; ``count`` is 1 then if it is not given.

    ``seen`` is how many have matched so far, and ``struck`` how many of them were struck.
    """

    kind: str
    id: str = ""
    name: str = Field(default="*", max_length=256)
    count: int | None = Field(default=None, ge=1, le=10**9)
    probability: float = Field(default=1.0, gt=0, le=1)
    seed: int = Field(default=0, ge=-(2**53), le=2**53)
    method: str | None = None
    after: float | None = Field(default=None, ge=0, le=10**9)
    seconds: float | None = Field(default=None, gt=0, le=10**9)
    at_step: int | None = Field(default=None, ge=1, le=10**12)
    limit: int | None = Field(default=None, ge=0, le=10**6)
    seen: int = 0
    struck: int = 0
    create_time: datetime | None = None


class ApiFaultList(Model):
    faults: list[ApiFault] = Field(default_factory=list)
