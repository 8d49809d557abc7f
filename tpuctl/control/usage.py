"""Who has used how many chips for how long? By the second, from when a slice is READY until it no longer is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from backend.hardware import accelerator_type
from tpuctl.api.jobs import Attempt
from tpuctl.api.quota import Provisioning
from tpuctl.api.usage import Usage, UsageBy
from tpuctl.control.prices import price_of
from tpuctl.control.provisioning import provisioning_of
from tpuctl.store import JobRow, Reader
from tpuctl.store.rows import UsageRow

HOUR = 3600.0


def summed(rows: Iterable[UsageRow], by: UsageBy, since: float, now: float) -> list[Usage]:
    """What was used from ``since`` until ``now``, both in seconds since the epoch; the dearest first."""
    hours: dict[tuple[str, str, Provisioning], float] = {}
    costs: dict[tuple[str, str, Provisioning], float | None] = {}
    for row in rows:
        seconds = min(now, row.end_time or now) - max(since, row.create_time)
        name = {UsageBy.PROJECT: row.project, UsageBy.SLICE: row.name, UsageBy.JOB: row.job or ""}[by]
        if seconds <= 0 or not name:
            continue
        kind = accelerator_type(row.accelerator_type, row.topology)
        how = provisioning_of({"schedulingConfig": row.scheduling})
        key = name, kind.generation.name, how
        used = seconds / HOUR * kind.num_chips * row.num_slices
        price = price_of(kind, how, row.zone)
        hours[key] = hours.get(key, 0.0) + used
        before = costs.get(key, 0.0)
        costs[key] = None if price is None or before is None else before + used * price
    found = [
        Usage(name=name, generation=generation, kind=how, chip_hours=used, cost=costs[name, generation, how])
        for (name, generation, how), used in hours.items()
    ]
    return sorted(found, key=lambda one: (-(one.cost or 0.0), -one.chip_hours, one.name))


def of_job(reader: Reader, job: JobRow) -> tuple[float, float | None]:
    """The chip-hours of a job in all its attempts and what they cost; None where there is no price, or none yet.

    Of a slice that was made for it as long as that was READY, of another as long as the job ran there; of one that is
    kept until the job's end.
    """
    if job.ephemeral_slice:
        rows = [row for row in reader.usages(project=job.project, job=job.name) if row.create_time >= job.create_time]
        if job.keep_slice and job.end_time is not None:
            rows = [_within(row, 0.0, job.end_time) for row in rows]
    else:
        rows = [
            _within(row, start, end)
            for row in reader.usages(project=job.project, zone=job.zone, name=job.slice)
            for start, end in _runs(job, reader.now)
            if row.create_time < end and start < (row.end_time or end)
        ]
    found = summed(rows, UsageBy.PROJECT, 0.0, reader.now)
    costs = [one.cost for one in found]
    known = [cost for cost in costs if cost is not None]
    return sum(one.chip_hours for one in found), sum(known) if costs and len(known) == len(costs) else None


def _within(row: UsageRow, start: float, end: float) -> UsageRow:
    """What of it lies in that time."""
    return dataclasses.replace(row, create_time=max(row.create_time, start), end_time=min(row.end_time or end, end))


def _runs(job: JobRow, now: float) -> Iterator[tuple[float, float]]:
    """From when to when each of its attempts ran."""
    for one in job.attempts:
        attempt = Attempt.model_validate(one)
        if attempt.start_time and attempt.end_time and attempt.number != job.attempt:
            yield attempt.start_time.timestamp(), attempt.end_time.timestamp()
    if job.start_time is not None:
        yield job.start_time, job.end_time or now
