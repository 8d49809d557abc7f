"""Whatever befalls slices, and whenever the control plane is killed, every job gets its attempts and its end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.api_faults import ApiFault
from tpuctl.api.errors import ResourceExhausted
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.jobs import Job, JobState
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.quota import Provisioning, Quota

P, Z = "local", "us-central2-b"


def simulation(folder: Path, seed: int = 0) -> Simulation:
    """A pod of 64 chips: room for one v4-128, or for many small slices."""
    pod = PodSpec(zone=Z, generation="v4", shape="4x4x4", name="pod")
    return Simulation(folder / f"home-{seed}", FleetFile(pods=[pod]), seed)


def jobs(world: Simulation) -> dict[str, Job]:
    return {job.name: world.plane.get_job(P, job.name) for job in world.plane.list_jobs(P)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_job_is_lost(tmp_path: Path, seed: int) -> None:
    """Slices are preempted, vanish, or are refused; the control plane is killed at any change."""
    draw = random.Random(seed)  # noqa: S311 not a secret
    world = simulation(tmp_path, seed)
    world.plane.create_node(P, Z, "mine", NodeSpec(accelerator_type="v4-8"))
    own = {"acceleratorType": "v4-64", "zone": Z, "processes": 1, "queue": True, "restart": "on-preemption"}
    named = {"slice": "mine", "zone": Z, "queue": True, "restart": "on-preemption"}
    for number in range(3):
        world.job(P, f"own-{number}", ["sleep", "6"], **own, priority=number)
        world.job(P, f"named-{number}", ["sleep", "4"], **named)
    world.job(P, "last", ["sleep", "2"], **own, after=["own-0", "named-2"])
    world.job(P, "bad", ["fail", "2"], **own | {"restart": "on-failure", "maxRestarts": 2})
    for _ in range(60):
        if draw.random() < 0.08:
            kind = draw.choice(("preempt", "preempt", "vanish"))
            world.plane.api_faults.add(ApiFault(kind=kind, count=1, name=draw.choice(("own-*", "mine", "bad"))))
        world.step_and_die(draw.randrange(8), draw.choice((0.1, 0.5, 1.0)))
        _give_back(world)
    world.plane.api_faults.clear()
    for _ in range(400):
        world.step()
        _give_back(world)
        if all(job.state.ended for job in jobs(world).values()):
            break
    found = jobs(world)
    assert {name: job.state for name, job in found.items() if name != "bad"} == dict.fromkeys(
        [*(f"{kind}-{number}" for number in range(3) for kind in ("own", "named")), "last"], JobState.SUCCEEDED
    ), {name: (job.state, job.waits_for, job.error) for name, job in found.items()}
    assert found["bad"].state is JobState.FAILED
    assert [one.ended for one in found["bad"].attempts].count("failed") >= 1
    for job in found.values():
        assert [one.number for one in job.attempts] == list(range(1, job.attempt + 1))[: len(job.attempts)]
    world.run(10)
    assert [node.name.rpartition("/")[2] for node in world.plane.list_nodes(P, Z)] in ([], ["mine"])


def _give_back(world: Simulation) -> None:
    """As a user does with a slice that was lost."""
    node = next((node for node in world.plane.list_nodes(P, Z) if node.name.endswith("/mine")), None)
    if node is None:
        world.plane.create_node(P, Z, "mine", NodeSpec(accelerator_type="v4-8"))
    elif node.state in (NodeState.PREEMPTED, NodeState.TERMINATED):
        world.plane.act_on_node(P, Z, "mine", "delete")


def test_a_job_goes_where_there_is_room(tmp_path: Path) -> None:
    pods = [PodSpec(zone=zone, generation="v5e", name=zone) for zone in ("us-west4-a", "us-central1-a")]
    world = Simulation(tmp_path / "home", FleetFile(pods=pods))
    world.plane.create_node(P, "us-west4-a", "all", NodeSpec(accelerator_type="v5litepod-256"))
    world.run(5)
    options = {"acceleratorType": "v5litepod-256", "zone": "us-west4-a", "processes": 1, "queue": True}
    world.job(P, "one", ["sleep", "2"], **options)
    world.job(P, "two", ["sleep", "2"], **options, zones=["us-central1-a"])
    world.run(15)
    assert jobs(world)["one"].state is JobState.QUEUED
    assert jobs(world)["two"].state is JobState.SUCCEEDED
    assert jobs(world)["two"].zone == "us-central1-a"
    world.plane.cancel_job(P, "one")
    world.run(2)
    assert jobs(world)["one"].state is JobState.CANCELLED


def test_a_refusal_for_quota_is_waited_out(tmp_path: Path) -> None:
    world = simulation(tmp_path)
    none = Quota(project=P, region="us-central2", generation="v4", kind=Provisioning.ON_DEMAND, limit=0)
    world.plane.set_quota(none)
    options = {"acceleratorType": "v4-8", "zone": Z}
    with pytest.raises(ResourceExhausted, match="uota"):
        world.job(P, "at-once", ["sleep", "1"], **options)
    world.job(P, "patient", ["sleep", "1"], **options, queue=True)
    world.run(12)
    world.restart()
    waiting = jobs(world)["patient"]
    assert (waiting.state, "uota" in (waiting.waits_for or "")) == (JobState.QUEUED, True), waiting.waits_for
    world.plane.set_quota(none.model_copy(update={"limit": 100}))
    for _ in range(20):
        world.step(2.0)
    assert jobs(world)["patient"].state is JobState.SUCCEEDED


@pytest.mark.slow
def test_a_spot_job_makes_way_and_comes_back(tmp_path: Path) -> None:
    world = simulation(tmp_path)
    options = {"acceleratorType": "v4-128", "zone": Z, "processes": 1}
    world.job(P, "spot", ["sleep", "60"], **options, spot=True, restart="on-preemption")
    world.run(5)
    world.job(P, "first", ["sleep", "3"], **options, queue=True)
    for _ in range(30):
        world.step(2.0)
    assert jobs(world)["first"].state is JobState.SUCCEEDED
    for _ in range(30):
        world.step(3.0)
    spot = jobs(world)["spot"]
    assert ([one.ended for one in spot.attempts], spot.state) == (["preempted", "succeeded"], JobState.SUCCEEDED)
