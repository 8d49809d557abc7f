"""When is a schedule due? Pure functions over seconds since the epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from tpuctl.api.errors import InvalidArgument

NAMED = {"hour": 3600.0, "day": 86400.0, "week": 604800.0}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
MOST_COUNTED = 1000
"""More missed runs of a cron expression are not counted one by one."""


class Due(NamedTuple):
    """What a schedule that is due does: how many runs it has missed besides the one that is made up, and the next."""

    missed: int
    next: float


def first(every: str, now: float) -> float:
    """When the first run is: at once for an interval. Raises InvalidArgument."""
    return now if interval(every) is not None else next(_cron(every, now))


def after(every: str, due: float, now: float) -> Due:
    """What is to be done at ``now`` of a schedule whose next run was to be at ``due``. Raises InvalidArgument."""
    seconds = interval(every)
    if seconds is not None:
        missed = int((now - due) // seconds)
        return Due(missed, due + (missed + 1) * seconds)
    for missed, moment in zip(count(), _cron(every, due), strict=False):
        if moment > now:
            return Due(missed, moment)
        if missed == MOST_COUNTED:
            return Due(missed, next(_cron(every, now)))
    raise _wrong(every)


def interval(every: str) -> float | None:
    """Seconds between runs; None of what is not so."""
    if every in NAMED:
        return NAMED[every]
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhdw])", every)
    return float(found[1]) * UNITS[found[2]] if found else None


def _cron(every: str, start: float) -> Iterator[float]:
    """The times after ``start`` at which the expression is due. Raises InvalidArgument."""
    if len(every.split()) != 5:
        raise _wrong(every)
    try:
        moments = CronSim(every, datetime.fromtimestamp(start, UTC) + timedelta(microseconds=1))
        yield from (moment.timestamp() for moment in moments)
    except CronSimError as error:
        raise _wrong(every) from error
    raise InvalidArgument.of_fields({"every": f"{every!r} is never due"})


def _wrong(every: str) -> InvalidArgument:
    known = "hour, day, week, an interval such as 2h, or a cron expression such as '30 4 * * 1' (UTC)"
    return InvalidArgument.of_fields({"every": f"{every!r} is none of {known}"})
