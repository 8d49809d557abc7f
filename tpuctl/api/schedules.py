"""Schedules: jobs that run again and again."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tpuctl.api.jobs import Indices, JobRequest
from tpuctl.api.model import Model


class ScheduleRequest(Model):
    """``every`` is ``hour``, ``day``, ``week``, an interval such as ``2h``, or a cron expression, in UTC.

    An interval's first run is at once. With ``indices`` a run is an array of jobs, one for each.
    """

    name: str
    every: str = Field(max_length=200)
    job: JobRequest
    indices: Indices | None = None


class Schedule(Model):
    """``runs`` have been started; ``missed`` is how many were not, because the control plane was down.

    ``skipped`` is how many were not, because the run before had not ended. ``error`` says why the last one could not be
    started. ``last_job`` is the last run's; where there are ``indices``, its jobs are LAST_JOB-INDEX.
    """

    name: str
    uid: str
    every: str
    command: list[str]
    indices: list[int] | None = None
    next_time: datetime | None = None
    last_time: datetime | None = None
    last_job: str | None = None
    runs: int = 0
    missed: int = 0
    skipped: int = 0
    error: str | None = None
    create_time: datetime


class ScheduleList(Model):
    schedules: list[Schedule] = Field(default_factory=list)
