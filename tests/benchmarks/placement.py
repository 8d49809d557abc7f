"""How full do pods get, how long does a decision take, and what do simpler placers make of the same requests?

``python tests/benchmarks/placement.py [--picture FILE.png]`` simulates saturated pods (backend/fleet/simulation.py), a
seed at a time: v5p's 16x20x28 and v4's 64 cubes, slices as boxes and as any cubes that switches join. Then the same
requests, as boxes, go to placers that others use, with the same queue and look-ahead:

first fit
    the first free position, in every rotation
no rotation
    ours, each box only as it is asked for
rack, host
    as cluster managers with a hierarchy of failure domains do: a box lies where a multiple of its own size begins, in
    the first such block that is free (with one hold, since a second could be where no block is)
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from backend.fleet import Layout, Placement, Request, Snapshot, layout_of, place
from backend.fleet.backfill import BOXES, Place, Policy
from backend.fleet.placement import free_positions, whole_units
from backend.fleet.simulation import History, Scenario, simulate

PODS = {"v5p 16x20x28": "v5p", "v4 64 cubes": "v4"}
SEEDS = (0, 1, 2)
SPANS = 200
"""Points of a line in the picture."""


def first_fit(snapshot: Snapshot, request: Request, until: float) -> Placement | None:
    return _first(snapshot, request, until, lambda layout, shape: np.ones(len(layout.positions(shape)), np.bool_))


def hierarchical(snapshot: Snapshot, request: Request, until: float) -> Placement | None:
    return _first(snapshot, request, until, _aligned)


@dataclass(frozen=True)
class Placer:
    place: Place = place
    rotates: bool = True
    policy: Policy | None = None


PLACERS = {
    "ours": Placer(),
    "first fit": Placer(first_fit),
    "no rotation": Placer(rotates=False),
    "rack, host": Placer(hierarchical, policy=dataclasses.replace(BOXES, holds=1)),
}


def _first(
    snapshot: Snapshot, request: Request, until: float, allowed: Callable[[Layout, tuple[int, int, int]], np.ndarray]
) -> Placement | None:
    """The first free position among those allowed; parts of a unit go where ours put them."""
    layout = snapshot.layout
    if layout.is_small(request.shape):
        return place(snapshot, request, np.inf)
    positions = layout.positions(request.shape)
    free = free_positions(snapshot, positions) & allowed(layout, request.shape)
    return whole_units(layout, positions, int(free.argmax())) if free.any() else None


@cache
def _aligned(layout: Layout, shape: tuple[int, int, int]) -> np.ndarray:
    """Which positions begin at a multiple of their own size and do not wrap."""
    positions = layout.positions(shape)
    return np.array(
        [
            all(
                at * unit % side == 0 and at * unit + side <= whole
                for at, unit, side, whole in zip(origin, layout.unit, size, layout.shape, strict=True)
            )
            for origin, size in zip(positions.origins, positions.sizes, strict=True)
        ]
    )


@dataclass(frozen=True)
class Row:
    pod: str
    joined: str
    placer: str
    histories: list[History]

    def __str__(self) -> str:
        share = [history.utilisation for history in self.histories]
        milliseconds = 1e3 * np.concatenate([history.decision_seconds for history in self.histories])
        rate = [history.admissions / history.host_seconds for history in self.histories]
        return (
            f"{self.pod:<14} {self.joined:<7} {self.placer:<12} "
            f"{100 * np.median(share):.1f} % ({100 * min(share):.1f} to {100 * max(share):.1f}) "
            f"{max(history.worst_wait for history in self.histories):>8.1f} "
            f"{np.median(milliseconds):>8.3f} {np.percentile(milliseconds, 99):>7.3f} {np.median(rate):>9,.0f}"
        )


def measured(requests: int) -> Iterator[Row]:
    for contiguous in (True, False):
        for pod, generation in PODS.items():
            for name, placer in PLACERS.items() if contiguous else [("ours", Placer())]:
                scenario = Scenario(layout_of(generation), contiguous, requests, rotates=placer.rotates)
                seeded = (dataclasses.replace(scenario, seed=seed) for seed in SEEDS)
                histories = [simulate(one, placer.policy, placer.place) for one in seeded]
                yield Row(pod, "box" if contiguous else "any", name, histories)


def draw(rows: list[Row], file: Path) -> None:
    """Utilisation over time of each placer, one pod beside the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, pod in zip(figure.subplots(1, len(PODS), sharey=True), PODS, strict=True):
        for row in (row for row in rows if row.pod == pod):
            history = row.histories[0]
            times, shares = np.array(history.busy).T
            spans = np.linspace(times[len(times) // 5], times[-1], SPANS + 1)
            area = np.concatenate([[0.0], np.cumsum(shares[:-1] * np.diff(times))])
            means = np.diff(np.interp(spans, times, area)) / np.diff(spans)
            label = f"{row.placer}, {'boxes' if row.joined == 'box' else 'any cubes'}: {history.utilisation:.1%}"
            axes.plot((spans[1:] - spans[0]) / 3600, 100 * means, label=label, linewidth=1)
        axes.set(title=pod, xlabel="simulated hours", ylim=(50, 100))
        axes.legend(loc="lower right", fontsize=8)
    figure.supylabel("chips in use, %")
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the placement of slices in pods.")
    parser.add_argument("--requests", type=int, default=15_000, help="of each simulation")
    parser.add_argument("--picture", type=Path, help="where to draw utilisation over time")
    options = parser.parse_args()
    print(f"{options.requests:,} requests a simulation, seeds {', '.join(map(str, SEEDS))}")
    print(f"{'':<35} {'chips in use':<20} {'worst':>8} {'decision, ms':>16} {'slices/s':>9}")
    print(f"{'pod':<14} {'slices':<7} {'placer':<12} {'(of the seeds)':<20} {'wait':>8} {'median':>8} {'p99':>7}")
    rows = []
    for row in measured(options.requests):
        rows.append(row)
        print(row, flush=True)
    if options.picture:
        draw(rows, options.picture)


if __name__ == "__main__":
    main()
