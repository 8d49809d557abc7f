"""Who has used how many chips for how long? By the second, from when a slice is READY until it no longer is."""

from __future__ import annotations

from collections.abc import Iterable

from backend.hardware import accelerator_type
from tpuctl.api.quota import Provisioning
from tpuctl.api.usage import Usage, UsageBy
from tpuctl.control.prices import price_of
from tpuctl.control.provisioning import provisioning_of
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
