"""Which faults strike is decided by the rule, its seed and how many have matched it, and by nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tpuctl.api.api_faults import ApiFault
from tpuctl.api.errors import InvalidArgument, NotFound
from tpuctl.api.fault_kinds import KINDS, Point
from tpuctl.api.nodes import NodeHealth, NodeSpec, NodeState, SchedulingConfig
from tpuctl.control.api_faults import ApiFaults, Subject, after, matches, strikes
from tpuctl.control.fault_errors import Asked, quota, rate_limit, stockout
from tpuctl.control.node_faults import Phase, new_fate, next_fates, node_health, phase
from tpuctl.control.plane import ControlPlane
from tpuctl.store import ApiFaultRow, NodeRow, Store

CREATE = Subject(Point.REQUEST, "nodes.create", "train-1", "projects/p/locations/z/nodes/train-1")


def rule(kind: str = "stockout", **more: object) -> ApiFaultRow:
    return ApiFaultRow(id="f", kind=kind, create_time=0.0, **more)  # type: ignore[arg-type]


def struck(one: ApiFaultRow, times: int, now: float = 0.0) -> list[bool]:
    found = []
    for _ in range(times):
        found.append(strikes(one, now))
        one = dataclasses.replace(one, **after(one, found[-1], now))
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("*", True), ("train-*", True), ("other-*", False), ("projects/p/*", True), ("projects/q/*", False)],
)
def test_a_pattern_is_one_of_ids_or_with_a_slash_of_full_names(name: str, expected: bool) -> None:
    assert matches(rule(name=name), CREATE) is expected


def test_a_kind_strikes_its_own_methods_at_its_own_point_only() -> None:
    assert matches(rule("unavailable"), dataclasses.replace(CREATE, what="nodes.get"))
    assert not matches(rule("stockout"), dataclasses.replace(CREATE, what="nodes.get"))
    assert not matches(rule("slow"), CREATE)
    assert not matches(rule("unavailable", method="operations.*"), CREATE)


def test_a_count_is_an_end() -> None:
    assert struck(rule(count=2), 4) == [True, True, False, False]


def test_the_same_seed_strikes_the_same_ones() -> None:
    first, again, other = (struck(rule(probability=0.3, seed=seed), 200) for seed in (7, 7, 8))
    assert first == again != other
    assert 35 < sum(first) < 85


def test_a_rate_limit_strikes_what_is_over_it_within_a_minute() -> None:
    one = rule("rate-limit", rate=2)
    moments, found = [0.0, 1.0, 2.0, 59.0, 60.5, 61.5, 61.6], []
    for now in moments:
        found.append(strikes(one, now))
        one = dataclasses.replace(one, **after(one, found[-1], now))
    assert found == [False, False, True, True, False, False, True]


def node(**more: object) -> NodeRow:
    given = {"uid": "1", "project": "p", "zone": "z", "name": "n", "accelerator_type": "v3-8", "host": "h", "port": 1}
    return NodeRow(**given | {"create_time": 0.0, "state": NodeState.READY} | more)  # type: ignore[arg-type]


def test_a_fate_waits_for_its_node_to_be_ready_then_for_its_time_and_ends_in_time() -> None:
    fate = new_fate(rule("unhealthy", after=5.0, seconds=2.0))
    assert next_fates(node(state=NodeState.CREATING, faults=[fate]), 100.0) == [fate]
    (begun,) = next_fates(node(faults=[fate]), 100.0)
    assert [phase(begun, now) for now in (104.9, 105.0, 107.0)] == [Phase.COMING, Phase.NOW, Phase.OVER]
    assert [node_health(node(faults=[begun]), now)[0] for now in (104.9, 105.0, 107.0)] == [
        NodeHealth.HEALTHY,
        NodeHealth.UNHEALTHY_MAINTENANCE,
        NodeHealth.HEALTHY,
    ]
    assert next_fates(node(faults=[begun]), 107.0) == []
    assert next_fates(node(faults=[begun | {"cleared": True}]), 105.0) == []


def test_errors_are_as_clients_look_for_them() -> None:
    spec = NodeSpec(accelerator_type="v2-32", scheduling_config=SchedulingConfig(preemptible=True))
    asked = Asked("nodes.create", "p", "us-central2-b", "n", spec)
    assert 'There is no more capacity in the zone "us-central2-b"' in stockout(asked).message
    detail = quota(asked).details[0]
    assert detail["@type"].endswith("QuotaFailure")
    assert detail["violations"][0]["description"] == (
        "Quota 'TPUV2sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 0 in region us-central2"
    )
    assert "Maximum number of CreateNode requests per minute" in rate_limit(asked, 3).message
    assert rate_limit(asked, 3).details[0]["metadata"]["quota_limit_value"] == "3"


@pytest.fixture
def faults(tmp_path: Path) -> ApiFaults:
    return ApiFaults(Store(tmp_path / "db"))


@pytest.mark.parametrize("wanted", [ApiFault(kind="rain"), ApiFault(kind="stockout", seconds=1)])
def test_a_fault_that_cannot_be_is_refused(faults: ApiFaults, wanted: ApiFault) -> None:
    with pytest.raises(InvalidArgument):
        faults.add(wanted)
    assert faults.list() == []
    assert not faults.any


def test_every_kind_can_be_added_listed_and_cleared(faults: ApiFaults) -> None:
    made = [faults.add(ApiFault(kind=kind)) for kind in KINDS]
    assert faults.any
    assert [one.id for one in faults.list()] == [one.id for one in made]
    faults.clear(made[0].id)
    assert len(faults.list()) == len(KINDS) - 1
    with pytest.raises(NotFound):
        faults.clear(made[0].id)
    faults.clear()
    assert faults.list() == []
    assert not faults.any


def test_what_was_struck_is_known_after_a_restart(tmp_path: Path) -> None:
    asked = Asked("nodes.create", "p", "z", "n")

    def some(times: int, *, restart: bool, path: Path) -> list[bool]:
        faults = ApiFaults(Store(path))
        faults.add(ApiFault(kind="stockout", probability=0.5, seed=3))
        found = []
        for _ in range(times):
            found.append(faults.on_request(asked) is not None)
            faults = ApiFaults(Store(path)) if restart else faults
        return found

    assert some(12, restart=True, path=tmp_path / "a") == some(12, restart=False, path=tmp_path / "b")


P, Z = "local", "europe-west4-a"
V3 = NodeSpec(accelerator_type="v3-8", runtime_version="x")


def test_a_node_is_preempted_at_the_moment_chosen_and_stays_listed(
    plane: ControlPlane, wait_until: Callable[..., None]
) -> None:
    plane.create_node(P, Z, "a", V3)
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    plane.api_faults.add(ApiFault(kind="preempt", name="a", after=0.2))
    plane.create_node(P, Z, "b", V3)
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.PREEMPTED)
    wait_until(lambda: plane.get_node(P, Z, "b").state is NodeState.READY)
    with pytest.raises(InvalidArgument, match="update is not supported while in state PREEMPTED"):
        plane.update_node(P, Z, "a", ["description"], plane.get_node(P, Z, "a"))


def test_a_node_vanishes_with_its_process_and_its_directory(
    plane: ControlPlane, wait_until: Callable[..., None]
) -> None:
    plane.create_node(P, Z, "a", V3)
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    directory = Path(plane.get_slice(P, Z, "a").directory)
    assert plane.executor.is_alive(directory)
    plane.api_faults.add(ApiFault(kind="vanish"))
    wait_until(lambda: plane.list_nodes(P, Z) == [])
    assert not plane.executor.is_alive(directory)
    assert not directory.exists()


def test_the_metadata_servers_of_a_slice_are_down_until_it_is_cleared(
    plane: ControlPlane, wait_until: Callable[..., None]
) -> None:
    plane.create_node(P, Z, "a", V3)
    wait_until(lambda: plane.get_node(P, Z, "a").state is NodeState.READY)
    down = Path(plane.get_slice(P, Z, "a").directory) / "metadata-down"
    plane.api_faults.add(ApiFault(kind="metadata"))
    wait_until(down.exists)
    plane.api_faults.clear()
    wait_until(lambda: not down.exists())


def test_an_endless_create_can_be_cancelled(plane: ControlPlane, wait_until: Callable[..., None]) -> None:
    plane.api_faults.add(ApiFault(kind="endless", method="nodes.create"))
    name = plane.create_node(P, Z, "a", V3).name.rsplit("/", 1)[-1]
    directory = Path(plane.get_slice(P, Z, "a").directory)
    wait_until(lambda: plane.executor.is_alive(directory))
    plane.cancel_operation(P, Z, name)
    wait_until(lambda: plane.get_operation(P, Z, name).done)
    assert plane.get_operation(P, Z, name).error.code == 1  # type: ignore[union-attr]
    assert plane.list_nodes(P, Z) == []
    wait_until(lambda: not plane.executor.is_alive(directory))
