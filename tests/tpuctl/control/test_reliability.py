"""A model of nodes, queued resources and jobs, against random histories: kills at any change, clocks that jump.

The model knows which transitions there are and which resources were made. After each step the control plane is asked
whether all that it keeps is possible: no chip in two slices or two reservations or broken in one, no quota below
nothing or above its limit, no transition outside the tables, no job, node or queued resource lost, none half made.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.tpuctl.control.simulated import START, Simulation
from tpuctl.api.errors import ApiError, Internal
from tpuctl.api.fleet import FleetFile, MaintenanceWindow, PodSpec
from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedState
from tpuctl.api.quota import Provisioning, Quota, Unit
from tpuctl.api.reservations import ReservationSpec
from tpuctl.control.node_states import SETTLED_STATE, VERBS
from tpuctl.control.pods import masks_of, nothing, restored

P, Z = "local", "us-central2-b"
BEGIN = datetime.fromtimestamp(START, UTC)
WINDOW = MaintenanceWindow(start=BEGIN + timedelta(seconds=30), end=BEGIN + timedelta(seconds=90))
FLEET = FleetFile(
    pods=[
        PodSpec(zone=Z, generation="v4", shape="4x4x8", name="pod", spare=["2x2x1@0,0,0"]),
        PodSpec(zone=Z, generation="v4", shape="4x4x4", name="maintained", maintenance=[WINDOW]),
    ],
    defragment=True,
    grace_seconds=2.0,
    repair_seconds=1.0,
)
TYPES = st.sampled_from(["v4-8", "v4-16", "v4-32", "v4-128", "v4-256"])
NAMES = st.sampled_from([f"n{number}" for number in range(6)])
QUEUED = st.sampled_from([f"q{number}" for number in range(4)])
RESERVATIONS = st.sampled_from(["r0", "r1"])
JOBS = st.sampled_from([f"j{number}" for number in range(4)])

N = NodeState
NODE_MOVES = (
    {(None, N.CREATING), (N.CREATING, None)}
    | {(state, None) for state in (N.DELETING, N.READY)}  # READY: vanished by a fault
    | {(state, target) for state, target in SETTLED_STATE.items()}
    | {(state, target) for verb in VERBS.values() for state, target in verb.items()}
    | {(N.READY, N.REPAIRING), (N.REPAIRING, N.REPAIRING), (N.READY, N.TERMINATED), (N.REPAIRING, N.TERMINATED)}
    | {(N.READY, N.PREEMPTED), (N.STARTING, N.TERMINATED)}
)
Q = QueuedState
QUEUED_MOVES = {
    (None, Q.CREATING),
    (Q.CREATING, Q.ACCEPTED),
    (Q.ACCEPTED, Q.WAITING_FOR_RESOURCES),
    (Q.ACCEPTED, Q.PROVISIONING),
    (Q.ACCEPTED, Q.FAILED),
    (Q.WAITING_FOR_RESOURCES, Q.PROVISIONING),
    (Q.WAITING_FOR_RESOURCES, Q.FAILED),
    (Q.PROVISIONING, Q.ACTIVE),
    (Q.PROVISIONING, Q.FAILED),
    (Q.PROVISIONING, Q.SUSPENDING),
    (Q.PROVISIONING, Q.SUSPENDED),
    (Q.ACTIVE, Q.SUSPENDING),
    (Q.ACTIVE, Q.SUSPENDED),
    (Q.SUSPENDING, Q.SUSPENDED),
    *((state, Q.ACCEPTED) for state in (Q.FAILED, Q.SUSPENDED, Q.ACTIVE)),
    *((state, Q.DELETING) for state in QueuedState if state is not Q.DELETING),
    (Q.DELETING, None),
}


@contextmanager
def refused() -> Iterator[None]:
    """What the control plane may say no to; never for a reason of its own."""
    try:
        yield
    except Internal:
        raise
    except ApiError:
        pass


class ControlPlaneMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tpuctl-"))
        self.simulation = Simulation(self.folder, FLEET)
        for kind, limit in ((Provisioning.ON_DEMAND, 300), (Provisioning.SPOT, 200)):
            self.plane.set_quota(Quota(project=P, generation="v4", kind=kind, limit=limit))
        self.plane.set_quota(Quota(project=P, generation="v4", location=Z, unit=Unit.CHIPS, limit=130))
        self.jobs: set[str] = set()
        self.seen = 0

    def teardown(self) -> None:
        self.simulation.plane.store.close()
        shutil.rmtree(self.folder)

    @property
    def plane(self):  # type: ignore[no-untyped-def]
        return self.simulation.plane

    # What users do

    @rule(
        name=NAMES, kind=TYPES, how=st.sampled_from([{}, {"spot": True}, {"reserved": True}, {"reservationName": "r0"}])
    )
    def create_node(self, name: str, kind: str, how: dict[str, object]) -> None:
        spec = {"acceleratorType": kind, "schedulingConfig": how}
        with refused():
            self.plane.create_node(P, Z, name, NodeSpec.model_validate(spec))

    @rule(name=NAMES, verb=st.sampled_from(["delete", "stop", "start", "restart", "reimage"]))
    def act_on_node(self, name: str, verb: str) -> None:
        with refused():
            self.plane.act_on_node(P, Z, name, verb)

    @rule(name=QUEUED, kind=TYPES, tier=st.sampled_from([{}, {"spot": {}}]), several=st.sampled_from([1, 1, 2]))
    def queue(self, name: str, kind: str, tier: dict[str, dict[str, str]], several: int) -> None:
        node = {"acceleratorType": kind, "runtimeVersion": "x"}
        ids = {"nodeId": f"{name}-node"} if several == 1 else {"multisliceParams": {"nodeCount": several}}
        asked = {"tpu": {"nodeSpec": {"node": node, **ids}}, "queueingPolicy": {"validUntilDuration": "600s"}, **tier}
        with refused():
            self.plane.create_queued(P, Z, name, QueuedResource.model_validate(asked))

    @rule(name=QUEUED, force=st.booleans())
    def delete_queued(self, name: str, force: bool) -> None:
        with refused():
            self.plane.delete_queued(P, Z, name, force=force)

    @rule(name=QUEUED)
    def reset_queued(self, name: str) -> None:
        with refused():
            self.plane.reset_queued(P, Z, name)

    @rule(name=RESERVATIONS, chips=st.sampled_from([8, 60, 64]), later=st.sampled_from([None, 1.0, 20.0]))
    def reserve(self, name: str, chips: int, later: float | None) -> None:
        start = None if later is None else datetime.fromtimestamp(self.simulation.clock.now + later, UTC)
        asked = ReservationSpec(name=name, project=P, zone=Z, generation="v4", chips=chips, start=start)
        with refused():
            self.plane.create_reservation(asked)

    @rule(name=RESERVATIONS)
    def unreserve(self, name: str) -> None:
        with refused():
            self.plane.delete_reservation(P, Z, name)

    @rule(
        name=JOBS,
        kind=TYPES,
        word=st.sampled_from(["sleep", "fail"]),
        seconds=st.integers(0, 20),
        more=st.sampled_from([{}, {"restart": "on-preemption"}, {"restart": "always", "maxRestarts": 2, "spot": True}]),
    )
    def run_job(self, name: str, kind: str, word: str, seconds: int, more: dict[str, object]) -> None:
        with refused():
            self.simulation.job(P, name, [word, str(seconds)], acceleratorType=kind, zone=Z, **more)
            self.jobs.add(name)

    @rule(name=JOBS, node=NAMES, seconds=st.integers(0, 20))
    def run_job_on(self, name: str, node: str, seconds: int) -> None:
        with refused():
            self.simulation.job(P, name, ["sleep", str(seconds)], slice=node, zone=Z)
            self.jobs.add(name)

    @rule(name=JOBS)
    def cancel_job(self, name: str) -> None:
        with refused():
            self.plane.cancel_job(P, name)

    @rule(name=JOBS)
    def delete_job(self, name: str) -> None:
        with refused():
            self.plane.delete_job(P, name)
            self.jobs.discard(name)

    # What befalls them

    @rule(chip=st.sampled_from(["0,0,4", "3,3,3", "1,2,0"]), broken=st.booleans())
    def break_chip(self, chip: str, broken: bool) -> None:
        with refused():
            self.plane.set_pod_chip("pod", chip, broken=broken)

    @rule(name=NAMES)
    def runtime_dies(self, name: str) -> None:
        with refused():
            hosted, _ = self.plane.hosted_node(P, Z, name)
            self.simulation.executor.end(hosted.directory, kill=True)

    @rule(seconds=st.sampled_from([0.0, 0.5, 0.5, 1.0, 5.0, 700.0, -30.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.simulation.step(seconds)

    @rule(changes=st.integers(0, 6))
    def killed(self, changes: int) -> None:
        self.simulation.step_and_die(changes)

    @precondition(lambda self: self.jobs)
    @rule()
    def restarted(self) -> None:
        self.simulation.restart()

    # What must always be so

    @invariant()
    def no_chip_is_in_two_slices_or_broken_in_one(self) -> None:
        fleet = self.plane.placing.fleet.copy()
        with self.plane.store.read() as reader:
            nodes, reservations = reader.placed_nodes(), reader.reservations()
            broken = {row.name: {tuple(chip) for chip in row.broken} for row in reader.pods()}
        used = {name: pod.empty(broken.get(name, ())).taken for name, pod in fleet.pods.items()}
        kept = {name: nothing(pod.layout) for name, pod in fleet.pods.items()}
        for node in nodes:
            assert node.state not in (N.PREEMPTED, N.STOPPED, N.TERMINATED)
            assert len(node.placement or []) == node.num_slices
            for said in node.placement or []:
                chips = restored(fleet.pods[said["pod"]].layout, said).chips
                assert not (used[said["pod"]] & chips).any(), f"{node.name} overlaps"
                used[said["pod"]] |= chips
        for row in reservations:
            for said in row.placement or []:
                chips = masks_of(fleet.pods[said["pod"]].layout, said["chips"])
                assert not (kept[said["pod"]] & chips).any(), f"{row.name} overlaps"
                kept[said["pod"]] |= chips

    @invariant()
    def what_is_in_memory_is_what_is_stored(self) -> None:
        fleet = self.plane.placing.fleet
        for name, pod in fleet.pods.items():
            anew = pod.empty(fleet.broken(name))
            for _, part in fleet.parts_in(name):
                anew = anew.with_taken(part.placement.chips)
            assert (fleet.snapshot(name).taken == anew.taken).all()

    @invariant()
    def every_transition_is_in_the_tables(self) -> None:
        with self.plane.store.read() as reader:
            events = reader.events()
        for event in events[self.seen :]:
            if " -> " not in f" {event.change}":
                continue
            before, _, after = (part.strip() for part in event.change.partition("->"))
            if "/nodes/" in event.resource:
                move = (_state(NodeState, before), _state(NodeState, after))
                assert move in NODE_MOVES, event
            elif "/queuedResources/" in event.resource:
                moved = (_state(QueuedState, before), _state(QueuedState, after))
                assert moved in QUEUED_MOVES, event
        self.seen = len(events)

    @invariant()
    def no_quota_is_below_nothing_or_above_its_limit(self) -> None:
        for quota in self.plane.list_quotas(P).quotas:
            assert 0 <= quota.in_use <= quota.limit

    @invariant()
    def no_job_is_lost(self) -> None:
        assert {job.name for job in self.plane.list_jobs(P)} == self.jobs

    @invariant()
    def each_has_what_it_needs(self) -> None:
        with self.plane.store.read() as reader:
            nodes, jobs, queue = reader.nodes(), reader.jobs(), reader.queued_resources()
            undone = {row.name for row in reader.operations() if not row.done}
        assert {node.operation for node in nodes if node.operation} <= undone
        for node in nodes:
            assert (node.operation is None) or node.state not in (N.READY, N.STOPPED, N.PREEMPTED)
        names = {node.queued_resource for node in nodes if node.queued_resource}
        assert names <= {row.full_name for row in queue}
        running = [(job.zone, job.slice) for job in jobs if job.state is JobState.RUNNING]
        assert len(running) == len(set(running)), "two jobs run on one slice"


def _state(kind: type, text: str):  # type: ignore[no-untyped-def]
    return None if text in ("", "gone") else kind(text)


def check(histories: int, steps: int) -> None:
    run_state_machine_as_test(
        ControlPlaneMachine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_what_happens_is_always_possible() -> None:
    check(8, 40)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_100_000_steps_are_possible() -> None:
    check(1000, 100)


def test_a_history_is_the_same_when_it_is_told_again(tmp_path: Path) -> None:
    told = []
    for number in range(2):
        simulation = Simulation(tmp_path / str(number), FLEET, seed=3)
        for turn in range(3):
            spec = {"acceleratorType": "v4-128", "schedulingConfig": {"spot": turn == 0}}
            simulation.plane.create_node(P, Z, f"n{turn}", NodeSpec.model_validate(spec))
            simulation.step_and_die(turn)
            simulation.run(3.0)
        told.append(simulation.events())
        simulation.plane.store.close()
    assert told[0] == told[1]
    assert all(before[0] <= after[0] for before, after in pairwise(told[0]))
