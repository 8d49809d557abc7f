"""In which order are those who wait looked at? By tier, then priority; within these each project in turn.

The next is of the project that has the fewest chips, those that it is about to get counted in (fair share, as by the
dominant share of Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, with chips as the only resource), and of
these the one that has waited longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpuctl.control.fleet import Wanted


@dataclass(frozen=True)
class Candidate:
    """One who waits: ``since`` is when, in seconds since the epoch. ``spot`` may be preempted, and so comes last."""

    uid: str
    full_name: str
    project: str
    since: float
    wanted: Wanted
    spot: bool = False
    priority: int = 0


def in_order(queue: Iterable[Candidate], chips_in_use: Mapping[str, int], most: int) -> list[Candidate]:
    """The first ``most``. ``chips_in_use`` are those of each project now."""
    left = sorted(queue, key=lambda one: (one.spot, -one.priority, one.since, one.uid))
    chips = dict(chips_in_use)
    ordered: list[Candidate] = []
    while left and len(ordered) < most:
        first = left[0]
        equals = [one for one in left if (one.spot, one.priority) == (first.spot, first.priority)]
        chosen = min(equals, key=lambda one: (chips.get(one.project, 0), one.since, one.uid))
        left.remove(chosen)
        ordered.append(chosen)
        needed = chosen.wanted.kind.num_chips * chosen.wanted.num_slices
        chips[chosen.project] = chips.get(chosen.project, 0) + needed
    return ordered
