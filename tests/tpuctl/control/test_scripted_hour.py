"""Three projects share one v4 pod for an hour of simulated time: what should happen, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.errors import FailedPrecondition, ResourceExhausted
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedState
from tpuctl.api.quota import Quota
from tpuctl.api.status import FaultRequest
from tpuctl.api.usage import Budget
from tpuctl.cli.pods_view import pod_view
from tpuctl.cli.status_view import status_view

Z = "us-central2-b"
PROJECTS = ("vision", "language", "search")
POD = PodSpec(zone=Z, generation="v4", shape="8x8x8", name="pod", spare=["4x4x4@4,4,4"])
FLEET = FleetFile(pods=[POD], grace_seconds=30.0, repair_seconds=10.0, defragment=True)
EXPECTED = (
    ("nodes/base", "CREATING -> READY"),
    ("jobs/pretrain", "QUEUED -> RUNNING"),
    ("nodes/pretrain", "preemption notice"),  # for eval: on-demand comes before spot
    ("nodes/pretrain", "READY -> PREEMPTED"),
    ("queuedResources/eval", "PROVISIONING -> ACTIVE"),
    ("jobs/tune-1", "RUNNING -> SUCCEEDED"),
    ("nodes/eval-node", "faults"),
    ("nodes/eval-node", "READY -> RESTARTING"),
    ("nodes/eval-node", "STARTING -> READY"),
    ("nodes/base", "preemption notice"),  # the budget is spent
    ("nodes/base", "READY -> PREEMPTED"),
    ("jobs/pretrain", "RUNNING -> SUCCEEDED"),  # it has gone on once there was room
    ("queuedResources/wide", "PROVISIONING -> ACTIVE"),
    ("nodes/tune-2", "preemption notice"),  # it makes room for a whole cube
    ("queuedResources/cube", "PROVISIONING -> ACTIVE"),
)
BROKEN = {"faults": [{"part": "chip", "where": ["0,0,0"], "sliceIndex": 0}], "faultText": "chip 0,0,0 has failed"}


class Hour:
    """The script, with a look at `status` and the pod at every step."""

    def __init__(self, folder: Path) -> None:
        self.simulation = Simulation(folder, FLEET)
        self.plane = self.simulation.plane
        self.start = self.simulation.clock.now
        self.console = Console(width=100, file=(folder / "status.txt").open("w"))

    def until(self, seconds: float) -> None:
        while self.simulation.clock.now < self.start + seconds:
            self.simulation.step(5.0)
        for project in PROJECTS:
            self.console.print(status_view(self.plane.status(project).model_dump(mode="json", by_alias=True), 100))
        for pod in self.plane.list_pods():
            assert pod.in_use + pod.free + pod.broken + pod.spare == pod.chips
            self.console.print(pod_view(pod.model_dump(mode="json", by_alias=True), 100))

    def create(self, project: str, name: str, kind: str) -> None:
        self.plane.create_node(project, Z, name, NodeSpec(accelerator_type=kind))

    def queue(self, project: str, name: str, kind: str, **more: Any) -> None:
        spec = {"nodeId": f"{name}-node", "node": {"acceleratorType": kind, "runtimeVersion": "x"}}
        self.plane.create_queued(project, Z, name, QueuedResource.model_validate({"tpu": {"nodeSpec": spec}, **more}))

    def job(self, project: str, name: str, seconds: int, kind: str, **more: Any) -> None:
        self.simulation.job(project, name, ["sleep", str(seconds)], acceleratorType=kind, zone=Z, queue=True, **more)

    def queued(self, project: str, name: str) -> QueuedState | None:
        found = self.plane.get_queued(project, Z, name).state
        return found and found.state

    def play(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plane = self.plane
        plane.set_quota(Quota(project="search", generation="v4", limit=128))
        plane.set_budget(Budget(project="vision", amount=200.0, stop=True))
        self.create("vision", "base", "v4-256")
        self.until(10)
        self.job("language", "pretrain", 900, "v4-512", spot=True, restart="on-preemption")
        self.until(20)
        with pytest.raises(ResourceExhausted, match="Quota limit 'TPUV4sPodPerProject"):
            self.create("search", "greedy", "v4-256")
        self.job("search", "tune-1", 300, "v4-64")
        self.job("search", "tune-2", 3300, "v4-64", restart="on-preemption")
        self.until(60)
        assert plane.list_pods()[0].free == 0

        self.queue("language", "eval", "v4-128")
        self.until(110)
        assert self.queued("language", "eval") is QueuedState.ACTIVE
        pretrain = plane.get_job("language", "pretrain")
        assert pretrain.state is JobState.QUEUED
        self.queue("vision", "probe", "v4-128", spot={})
        self.until(160)
        (probe,) = plane.queue("vision").waiting
        assert "the place is kept for pretrain" in probe.reason
        self.create("language", "notebook", "v4-16")  # what is small goes on: it delays nobody
        self.until(200)
        assert plane.get_node("language", Z, "notebook").state is NodeState.READY

        self.until(600)
        with monkeypatch.context() as patched:
            patched.setattr("tpuctl.control.faults.inject", lambda *_: BROKEN)
            patched.setattr("tpuctl.control.nodes.telemetry.ask", lambda *_: BROKEN)
            plane.fault("language", Z, "eval-node", FaultRequest(part="chip", where=["0,0,0"]))
            self.simulation.run(15)
        self.until(660)
        assert plane.get_node("language", Z, "eval-node").state is NodeState.READY
        assert plane.list_pods()[0].broken == 1

        self.until(1850)
        with pytest.raises(FailedPrecondition, match=r"the budget of project vision, \$200.00 a month, is spent"):
            self.create("vision", "more", "v4-8")
        assert plane.get_node("vision", Z, "base").state is NodeState.PREEMPTED
        assert plane.get_job("language", "pretrain").state is JobState.RUNNING
        assert plane.get_job("language", "pretrain").attempt == 2
        plane.delete_queued("vision", Z, "probe", force=True)

        self.until(2900)
        self.queue("language", "wide", "v4-512")
        self.until(2960)
        assert self.queued("language", "wide") is QueuedState.ACTIVE
        self.queue("language", "cube", "v4-128")
        self.until(3100)
        assert self.queued("language", "cube") is QueuedState.ACTIVE
        assert plane.get_job("search", "tune-2").state is JobState.RUNNING
        self.until(3600)


def in_order(events: list[tuple[float, str, str, str]]) -> list[tuple[str, str]]:
    """Those of EXPECTED that happened one after the other."""
    left = list(EXPECTED)
    for _, resource, change, _ in events:
        if left and resource.endswith(left[0][0]) and change == left[0][1]:
            left.pop(0)
    return left


def test_three_projects_share_a_pod_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = Hour(tmp_path)
    hour.play(monkeypatch)
    assert in_order(hour.simulation.events()) == []
    usage = {project: hour.plane.list_budgets(project).budgets for project in PROJECTS}
    assert [len(found) for found in usage.values()] == [1, 0, 0]
    hour.console.file.close()
    seen = (tmp_path / "status.txt").read_text()
    for word in ("PREEMPTED", "RUNNING", "QUEUED", "spent this month", "pretrain", "eval-node"):
        assert word in seen
    hour.plane.store.close()
