"""Which of those who wait start now? In their order, but others go ahead while they do not delay who waits longest.

Whoever has seen so many start gets a hold: the place where it can start soonest is kept for it, and others go there
only if they end before that (EASY backfilling: Lifka, "The ANL/IBM SP Scheduling System", 1995; with more than one hold
it is between that and conservative backfilling: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and
User Runtime Estimates in Scheduling the IBM SP2 with Backfilling", 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from backend.fleet.layout import Masks, Request
from backend.fleet.placement import Placement, place, possible
from backend.fleet.snapshot import Snapshot

Place = Callable[[Snapshot, Request, float], Placement | None]


@dataclass(eq=False)
class Waiting:
    """A request in the queue.

    ``seconds`` is the longest that its slice lives; ``since`` is how many had ever started when it came.
    """

    request: Request
    seconds: float = np.inf
    since: int = 0


@dataclass(frozen=True)
class Policy:
    """The first ``look_ahead`` of the queue are looked at.

    At most ``holds`` of them, which have seen ``patience`` start, have a place held.
    """

    look_ahead: int = 16
    patience: int = 300
    holds: int = 2


BOXES = Policy()
APART = Policy(patience=1000, holds=1)
"""For boxes, and where switches join any free units: there holds cost more than they win.

Both were found by simulation (tests/benchmarks/placement.py).
"""


@dataclass(frozen=True, eq=False)
class Hold:
    """Chips that are kept for one who waits; all of them are free at ``ready``."""

    waiting: Waiting
    chips: Masks
    ready: float


@dataclass
class Starts:
    """Who starts, where, and what is held afterwards; ``snapshot`` is the pod then, ``started`` how many ever have."""

    snapshot: Snapshot
    started: int = 0
    placed: list[tuple[Waiting, Placement]] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)


def starts(
    snapshot: Snapshot,
    queue: Sequence[Waiting],
    now: float,
    holds: Sequence[Hold] = (),
    policy: Policy = BOXES,
    place: Place = place,
    started: int = 0,
) -> Starts:
    """Decide for a queue at the time ``now``, in seconds of the snapshot's clock.

    ``holds`` are those of the last decision, ``started`` is how many had started until then.
    """
    waiting = list(queue)
    found = Starts(snapshot, started, holds=_kept(snapshot, waiting, holds))
    in_vain: set[tuple[Request, tuple[Hold, ...]]] = set()
    rooms: dict[tuple[Hold, ...], Snapshot] = {}
    index = 0
    while index < min(policy.look_ahead, len(waiting)):
        one = waiting[index]
        until = now + one.seconds
        others = tuple(hold for hold in found.holds if hold.waiting is not one and hold.ready < until)
        placement = None
        if (one.request, others) not in in_vain:
            room = rooms[others] = rooms.get(others) or _without(found.snapshot, others)
            placement = place(room, one.request, until)
        if placement is None:
            in_vain.add((one.request, others))
            is_held = any(hold.waiting is one for hold in found.holds)
            if not is_held and len(found.holds) < policy.holds and found.started - one.since >= policy.patience:
                found.holds += soonest(_without(found.snapshot, found.holds), one)
            index += 1
            continue
        found.snapshot = found.snapshot.with_taken(placement.chips, until)
        rooms = {}
        found.placed.append((one, placement))
        del waiting[index]
        found.holds = _kept(found.snapshot, waiting, found.holds)
        found.started += 1
    return found


def soonest(snapshot: Snapshot, waiting: Waiting) -> list[Hold]:
    """The place that is wholly free first; none where that is not known of any, or for a part of a unit."""
    layout, request = snapshot.layout, waiting.request
    if layout.is_small(request.shape):
        return []
    if layout.optical and not request.contiguous:
        needed = layout.units_of(request.shape)
        units = np.argsort(snapshot.used_until, kind="stable")[:needed]
        ready = float(snapshot.used_until[units].max())
        chips = np.zeros(layout.num_units, np.uint64)
        chips[units] = layout.full_mask
    else:
        positions = layout.positions(request.shape, request.rotates)
        times = np.where(possible(snapshot, positions), 0.0, np.inf)
        times = np.maximum(times, np.where(positions.covers, snapshot.used_until, 0.0).max(axis=1))
        best = int(times.argmin())
        ready = float(times[best])
        chips = np.where(positions.covers[best], layout.full_mask, np.uint64(0))
    return [Hold(waiting, chips, ready)] if np.isfinite(ready) else []


def _kept(snapshot: Snapshot, waiting: list[Waiting], holds: Sequence[Hold]) -> list[Hold]:
    """The holds of those who wait. Once another has gone, the first in the queue may have found a better one."""
    kept = [hold for hold in holds if hold.waiting in waiting]
    for index, hold in enumerate(kept):
        if hold.waiting is waiting[0] and len(kept) < len(holds):
            others = [*kept[:index], *kept[index + 1 :]]
            better = soonest(_without(snapshot, others), hold.waiting)
            kept[index] = min([hold, *better], key=lambda one: one.ready)
    return kept


def _without(snapshot: Snapshot, holds: Sequence[Hold]) -> Snapshot:
    """The pod with what is held taken."""
    return snapshot.with_taken(np.bitwise_or.reduce([hold.chips for hold in holds])) if holds else snapshot
