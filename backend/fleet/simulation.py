"""How full does a pod get, and who waits how long? A saturated pod, simulated from a seed.

So many requests always wait. Shapes are powers of two of a host, smaller ones more often; run times have a heavy tail
(Pareto), as those of large clusters have (Reiss et al., "Heterogeneity and Dynamicity of Clouds at Scale", 2012).
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from backend.fleet.backfill import APART, BOXES, Hold, Place, Policy, Waiting, starts
from backend.fleet.layout import Layout, Masks, Request
from backend.fleet.placement import place
from backend.fleet.snapshot import Snapshot
from backend.hardware.torus import Coords

SHAPES_3D: tuple[Coords, ...] = (
    (2, 2, 1),
    (2, 2, 2),
    (2, 2, 4),
    (2, 4, 4),
    (4, 4, 4),
    (4, 4, 8),
    (4, 8, 8),
    (8, 8, 8),
    (8, 8, 16),
    (8, 16, 16),
)
LARGEST_SHARE = 0.25
"""Of the pod: larger shapes are not asked for."""
LESS_OFTEN = 0.6
"""How often a shape is asked for, beside one of half its chips."""
TAIL = 1.5
SHORTEST_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0


@dataclass(frozen=True)
class Scenario:
    """``backlog`` requests always wait; the first fifth of ``requests`` warms up and is not counted."""

    layout: Layout
    contiguous: bool = True
    requests: int = 15_000
    backlog: int = 256
    seed: int = 0
    rotates: bool = True

    def arrivals(self) -> Iterator[tuple[Request, float]]:
        """Requests with their run times in seconds."""
        rng = np.random.default_rng(self.seed)
        shapes = [shape for shape in SHAPES_3D if np.prod(shape) <= LARGEST_SHARE * self.layout.num_chips]
        odds = LESS_OFTEN ** np.arange(len(shapes))
        chosen = rng.choice(len(shapes), size=self.requests, p=odds / odds.sum())
        seconds = np.minimum(SHORTEST_SECONDS * (1 + rng.pareto(TAIL, self.requests)), LONGEST_SECONDS)
        for number, length in zip(chosen, seconds, strict=True):
            yield Request(shapes[number], self.contiguous, self.rotates), float(length)


@dataclass
class History:
    """What became of a scenario. Times in simulated seconds; ``decision_seconds`` are measured, one a call of place."""

    utilisation: float = 0.0
    waits: list[float] = field(default_factory=list)
    busy: list[tuple[float, float]] = field(default_factory=list)
    """Time, and the share of the pod's chips in use from then on."""
    decision_seconds: list[float] = field(default_factory=list)
    host_seconds: float = 0.0
    admissions: int = 0

    @property
    def worst_wait(self) -> float:
        """The longest wait, in medians."""
        return max(self.waits) / float(np.median(self.waits))


def simulate(
    scenario: Scenario,
    policy: Policy | None = None,
    chooser: Place = place,
    broken: Sequence[Coords] = (),
) -> History:
    """Run a scenario until no more requests arrive."""
    history, layout = History(), scenario.layout
    policy = policy or (BOXES if scenario.contiguous else APART)
    arrivals, snapshot = scenario.arrivals(), Snapshot.empty(layout, broken)
    queue = [Waiting(request, seconds) for request, seconds in itertools.islice(arrivals, scenario.backlog)]
    since = dict.fromkeys(queue, 0.0)
    running: list[tuple[float, int, Masks, int]] = []
    now, used, area, counted_from = 0.0, 0, 0.0, 0.0
    holds: list[Hold] = []
    began = time.perf_counter()

    def timed(snapshot: Snapshot, request: Request, until: float) -> object:
        start = time.perf_counter()
        found = chooser(snapshot, request, until)
        history.decision_seconds.append(time.perf_counter() - start)
        return found

    while len(queue) == scenario.backlog:
        decided = starts(snapshot, queue, now, holds, policy, timed, history.admissions)  # type: ignore[arg-type]
        snapshot, holds = decided.snapshot, decided.holds
        for one, placement in decided.placed:
            chips = placement.num_chips
            heapq.heappush(running, (now + one.seconds, history.admissions, placement.chips, chips))
            used += chips
            history.admissions += 1
            waited = now - since.pop(one)
            if history.admissions > scenario.requests // 5:
                history.waits.append(waited)
            queue.remove(one)
        for request, seconds in itertools.islice(arrivals, len(decided.placed)):
            queue.append(Waiting(request, seconds, history.admissions))
            since[queue[-1]] = now
        history.busy.append((now, used / layout.num_chips))
        if decided.placed:
            continue  # the look-ahead has moved on
        end, _, released, chips = heapq.heappop(running)
        if history.admissions > scenario.requests // 5:
            area += used * (end - now)
            counted_from = counted_from or now
        now, used, snapshot = end, used - chips, snapshot.without(released)
    history.host_seconds = time.perf_counter() - began
    history.utilisation = area / layout.num_chips / (now - counted_from)
    return history
