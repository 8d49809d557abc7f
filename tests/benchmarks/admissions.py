"""How many slices does the control plane's scheduler admit in a second? Order, fair share, room, backfill, spot.

``python tests/benchmarks/admissions.py [COUNT]`` keeps 64 requests of three projects waiting for one pod, none of whose
slices has a known end. What finds room is admitted; once nothing does, 20 slices go. Nothing of what the control plane
then does with a slice (its rows, its runtime) is counted.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from backend.hardware import accelerator_type
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.control.fleet import Wanted
from tpuctl.control.placing import Placing
from tpuctl.control.queue_order import Candidate
from tpuctl.store import Store

PODS = (
    ("v4", "us-central2-b", "v4-8 v4-16 v4-128 v4-256"),
    ("v5e", "us-west4-a", "v5litepod-4 v5litepod-16 v5litepod-32"),
    ("v5p", "us-east5-a", "v5p-8 v5p-128 v5p-256"),
)
WAITING, LEAVING, PROJECTS = 64, 20, 3


def admissions(generation: str, zone: str, types: str, count: int, folder: Path) -> tuple[float, int]:
    """Seconds for ``count`` admissions, and how many requests were looked at for them."""
    store = Store(folder / generation)
    placing = Placing(store, FleetFile(pods=[PodSpec(zone=zone, generation=generation)]))
    kinds, rng = [accelerator_type(name) for name in types.split()], random.Random(0)  # noqa: S311 not a secret
    queue: list[Candidate] = []
    living: list[str] = []
    made = admitted = looked = 0
    began = time.perf_counter()
    while admitted < count:
        while len(queue) < WAITING:
            made += 1
            project = f"p{made % PROJECTS}"
            wanted = Wanted(zone, rng.choice(kinds))
            queue.append(Candidate(str(made), f"projects/{project}/{made}", project, float(made), wanted))
        starts = placing.admit(queue)
        looked += min(16, len(queue))
        for uid, parts in starts.items():
            placing.fleet.take(uid, parts)
        admitted += len(starts)
        living += starts
        queue = [one for one in queue if one.uid not in starts]
        for uid in [] if starts else rng.sample(living, min(LEAVING, len(living))):
            placing.fleet.release(uid)
            living.remove(uid)
    seconds = time.perf_counter() - began
    store.close()
    return seconds, looked


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    print("| pod | admitted a second | requests looked at a second |\n|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for generation, zone, types in PODS:
            seconds, looked = admissions(generation, zone, types, count, Path(folder))
            print(f"| {generation} | {count / seconds:,.0f} | {looked / seconds:,.0f} |")


if __name__ == "__main__":
    main()
