"""No project has more cores than it may; what it has is counted once, and given back once."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.hardware import ACCELERATOR_TYPES, accelerator_type
from tests.tpuctl.control.simulated import Simulation
from tpuctl.api.errors import ApiError, ResourceExhausted
from tpuctl.api.fleet import FleetFile, PodSpec
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.queued import QueuedResource, QueuedState
from tpuctl.api.quota import Provisioning, Quota, QuotaRequest, RequestState
from tpuctl.api.usage import Budget, UsageBy
from tpuctl.control.budgets import month_start
from tpuctl.control.catalogue import OFFERS
from tpuctl.control.fault_errors import Asked
from tpuctl.control.plane import ControlPlane
from tpuctl.control.prices import price_of
from tpuctl.control.rates import Rates

P, Z, R = "local", "us-central2-b", "us-central2"
FLEET = FleetFile(elastic=True, pods=[PodSpec(zone=Z, generation="v4", shape="4x4x4")])


@pytest.fixture
def simulation(tmp_path: Path) -> Iterator[Simulation]:
    made = Simulation(tmp_path / "home", FLEET)
    yield made
    made.plane.store.close()


def limit(plane: ControlPlane, cores: int, **more: Any) -> None:
    plane.set_quota(Quota.model_validate({"project": P, "generation": "v4", "limit": cores} | more))


def create(plane: ControlPlane, name: str, kind: str = "v4-8", project: str = P, **scheduling: bool) -> None:
    spec = {"acceleratorType": kind, "schedulingConfig": scheduling}
    plane.create_node(project, Z, name, NodeSpec.model_validate(spec))


def queue(plane: ControlPlane, name: str, kind: str = "v4-8", count: int = 1, **more: Any) -> None:
    ids = {"nodeId": f"{name}-node"} if count == 1 else {"multisliceParams": {"nodeCount": count}}
    spec = {"node": {"acceleratorType": kind, "runtimeVersion": "x"}, **ids}
    plane.create_queued(P, Z, name, QueuedResource.model_validate({"tpu": {"nodeSpec": spec}, **more}))


def used(plane: ControlPlane) -> list[int]:
    return [quota.in_use for quota in plane.list_quotas(P).quotas]


def test_without_a_limit_there_is_none(simulation: Simulation) -> None:
    for number in range(5):
        create(simulation.plane, f"n{number}", "v4-128")
    assert simulation.plane.list_quotas(P).quotas == []


def test_what_is_over_the_limit_is_refused_in_cloud_tpu_s_words(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 40)
    create(plane, "a", "v4-32")
    with pytest.raises(ResourceExhausted) as raised:
        create(plane, "b", "v4-32")
    name = "TPUV4sPodPerProjectPerRegionForTPUAPI"
    assert raised.value.message == f"Quota limit '{name}' has been exceeded. Limit: 40 in region {R}. In use: 32."
    (detail,) = raised.value.to_status()["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    create(plane, "c", "v4-8")
    assert used(plane) == [40]
    assert {node.name.rpartition("/")[2] for node in plane.list_nodes(P, Z)} == {"a", "c"}


def test_kinds_generations_and_projects_have_limits_of_their_own(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 0)
    limit(plane, 8, kind=Provisioning.SPOT)
    create(plane, "spot", spot=True)
    with pytest.raises(ResourceExhausted, match="TPUV4sPreemptiblePerProject"):
        create(plane, "more", spot=True)
    with pytest.raises(ResourceExhausted, match="'TPUV4sPerProject"):
        create(plane, "demand")
    create(plane, "reserved", reserved=True)
    create(plane, "other", project="other")
    assert used(plane) == [0, 8]


def test_a_region_s_own_limit_goes_before_that_of_all(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 0)
    limit(plane, 8, location=R)
    create(plane, "a")
    with pytest.raises(ResourceExhausted):
        create(plane, "b")


def test_a_zone_s_limit_and_its_region_s_both_count(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 24, location=R)
    limit(plane, 4, location=Z, unit="chips")
    create(plane, "a")
    with pytest.raises(ResourceExhausted) as raised:
        create(plane, "b")
    name = "TPUV4sPerProjectPerZoneForTPUAPI"
    assert raised.value.message == f"Quota limit '{name}' has been exceeded. Limit: 4 in zone {Z}. In use: 4."
    limit(plane, 32, location=Z, unit="chips")
    with pytest.raises(ResourceExhausted, match=f"Limit: 24 in region {R}. In use: 8"):
        create(plane, "b", "v4-32")
    create(plane, "b", "v4-16")
    shown = {(quota.location, str(quota.unit)): quota.in_use for quota in plane.list_quotas(P).quotas}
    assert shown == {(R, "cores"): 24, (Z, "chips"): 12}


def test_a_project_may_call_only_so_often_in_a_minute(simulation: Simulation) -> None:
    plane = simulation.plane
    assert not plane.rates.any
    plane.set_quota(Quota(project=P, method="nodes.create", limit=2))
    plane.set_quota(Quota(project=P, method="*", limit=4))
    asked = [Asked(method, P, Z, "a") for method in ("nodes.create", "nodes.list", "queuedResources.patch")]
    create_call, list_call, patch_call = asked
    for call in (create_call, create_call):
        plane.rates.count(call)
    with pytest.raises(ResourceExhausted, match="Maximum number of CreateNode requests per minute"):
        plane.rates.count(create_call)
    plane.rates.count(dataclasses.replace(create_call, project="other"))
    plane.rates.count(list_call)
    plane.rates.count(patch_call)
    with pytest.raises(ResourceExhausted, match="Maximum number of requests per minute") as raised:
        plane.rates.count(list_call)
    (detail,) = raised.value.to_status()["details"]
    assert detail["metadata"]["quota_metric"] == "tpu.googleapis.com/requests"
    assert {quota.method: quota.in_use for quota in plane.list_quotas(P).quotas} == {"nodes.create": 2, "*": 4}
    simulation.clock.now += 61
    plane.rates.count(create_call)
    plane.decide_quota_request(plane.request_quota(P, QuotaRequest(method="*", limit=1)).id, approve=True)
    with pytest.raises(ResourceExhausted):
        plane.rates.count(list_call)
    assert Rates(plane.store).any


def test_preempted_nodes_count_until_they_are_deleted(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 8, kind=Provisioning.SPOT)
    create(plane, "a", spot=True)
    simulation.run(3)
    plane.api_faults.add(_preempt())
    simulation.run(3)
    assert plane.get_node(P, Z, "a").state is NodeState.PREEMPTED
    with pytest.raises(ResourceExhausted):
        create(plane, "b", spot=True)
    plane.act_on_node(P, Z, "a", "delete")
    simulation.run(3)
    create(plane, "b", spot=True)


def _preempt() -> Any:
    from tpuctl.api.api_faults import ApiFault

    return ApiFault(kind="preempt", after=0.5)


def test_queued_resources_count_once_whatever_becomes_of_them(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 16)
    queue(plane, "q", count=2)
    simulation.run(3)
    assert plane.get_queued(P, Z, "q").state.state is QueuedState.ACTIVE  # type: ignore[union-attr]
    assert used(plane) == [16]
    with pytest.raises(ResourceExhausted):
        queue(plane, "r")
    for node in plane.list_nodes(P, Z):
        plane.act_on_node(P, Z, node.name.rpartition("/")[2], "delete")
        break
    simulation.run(3)
    assert plane.get_queued(P, Z, "q").state.state is QueuedState.SUSPENDED  # type: ignore[union-attr]
    assert used(plane) == [16]
    plane.delete_queued(P, Z, "q", force=True)
    simulation.run(3)
    assert used(plane) == [0]
    queue(plane, "r")


def test_a_request_counts_once_an_admin_has_approved_it(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 0)
    wanted = plane.request_quota(P, QuotaRequest(generation="v4", limit=8, reason="a paper"))
    with pytest.raises(ResourceExhausted):
        create(plane, "a")
    assert plane.decide_quota_request(wanted.id, approve=True).state is RequestState.APPROVED
    create(plane, "a")
    with pytest.raises(ApiError, match="has been approved already"):
        plane.decide_quota_request(wanted.id, approve=False)
    denied = plane.request_quota(P, QuotaRequest(generation="v4", limit=800))
    plane.decide_quota_request(denied.id, approve=False)
    assert plane.list_quotas(P).quotas[0].limit == 8
    with pytest.raises(ApiError, match="there is no quota request 'x'"):
        plane.decide_quota_request("x", approve=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"generation": "v9"}, "'v9' is none; there are v2, v3"),
        ({"location": "mars"}, "'mars' is none; there are asia-east1"),
        ({"limit": 10**9}, "is more than 10000000"),
        ({"generation": "v3", "unit": "chips"}, "Cloud TPU counts v3 in cores"),
        ({"unit": "requests a minute"}, "requests are counted of a method"),
        ({"method": "nodes.create"}, "has no generation or location"),
    ],
)
def test_limits_that_mean_nothing_are_refused(simulation: Simulation, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError) as raised:
        limit(simulation.plane, 1, **more)
    assert said in raised.value.message


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "queue", "delete", "unqueue", "run", "die"]),
        st.integers(0, 4),
        st.sampled_from(["v4-8", "v4-16", "v4-32"]),
        st.booleans(),
    ),
    max_size=30,
)


def check(folder: Path, steps: list[Any]) -> None:
    simulation = Simulation(folder, FLEET)
    limit(simulation.plane, 48)
    limit(simulation.plane, 24, kind=Provisioning.SPOT)
    for verb, number, kind, spot in steps:
        plane = simulation.plane
        with contextlib.suppress(ApiError):
            match verb:
                case "create":
                    create(plane, f"n{number}", kind, spot=spot)
                case "queue":
                    queue(plane, f"q{number}", kind, **({"spot": {}} if spot else {}))
                case "delete":
                    plane.act_on_node(P, Z, f"n{number}", "delete")
                case "unqueue":
                    plane.delete_queued(P, Z, f"q{number}", force=True)
                case "run":
                    simulation.run(2)
                case "die":
                    simulation.step_and_die(number)
        for quota in simulation.plane.list_quotas(P).quotas:
            assert 0 <= quota.in_use <= quota.limit
    plane = simulation.plane
    for node in plane.list_nodes(P, Z):
        with contextlib.suppress(ApiError):
            plane.act_on_node(P, Z, node.name.rpartition("/")[2], "delete")
    for row in plane.list_queued(P, Z):
        with contextlib.suppress(ApiError):
            plane.delete_queued(P, Z, row.name.rpartition("/")[2], force=True)
    simulation.run(8)
    assert used(plane) == [0, 0]
    plane.store.close()


def settled(histories: int) -> Any:
    return settings(max_examples=histories, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@settled(6)
@given(STEPS)
def test_no_history_goes_over_a_limit_or_below_nothing(tmp_path_factory: Any, steps: list[Any]) -> None:
    check(tmp_path_factory.mktemp("history"), steps)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settled(500)
@given(STEPS)
def test_none_of_500_histories_goes_over_a_limit(tmp_path_factory: Any, steps: list[Any]) -> None:
    check(tmp_path_factory.mktemp("history"), steps)


def test_usage_is_metered_by_the_second_while_a_slice_is_ready(simulation: Simulation) -> None:
    plane = simulation.plane
    create(plane, "a", "v4-32")
    create(plane, "b", "v4-8", spot=True)
    simulation.run(3)
    simulation.clock.now += 3600.0
    simulation.step_and_die(0)
    plane = simulation.plane
    plane.act_on_node(P, Z, "a", "delete")
    simulation.run(100)
    usage = plane.usage(P, UsageBy.SLICE, 0.0)
    rows = {row.name: row for row in usage.rows}
    assert rows["a"].chip_hours == pytest.approx(16 * 3602 / 3600, rel=1e-3)
    assert rows["a"].cost == pytest.approx(rows["a"].chip_hours * 3.22)
    assert rows["b"].chip_hours == pytest.approx(4 * 3702 / 3600, rel=1e-3)
    assert (rows["b"].kind, rows["b"].cost) == (Provisioning.SPOT, pytest.approx(rows["b"].chip_hours * 0.9215))
    (whole, spot) = plane.usage(P, UsageBy.PROJECT, 0.0).rows
    assert (whole.name, spot.name) == (P, P)
    assert plane.usage(P, UsageBy.SLICE, simulation.clock.now - 10).rows[0].name == "b"
    assert plane.usage("other", UsageBy.SLICE, 0.0).rows == []


def test_a_job_s_slice_is_its_usage_and_what_has_no_price_has_no_cost(simulation: Simulation) -> None:
    simulation.job(P, "train", ["sleep", "60"], acceleratorType="v4-8", zone=Z)
    simulation.run(70)
    (row,) = simulation.plane.usage(P, UsageBy.JOB, 0.0).rows
    assert row.name == "train"
    assert row.chip_hours == pytest.approx(4 * 61 / 3600, rel=0.05)


def test_a_job_says_what_its_slices_cost(simulation: Simulation) -> None:
    plane = simulation.plane
    simulation.job(P, "own", ["sleep", "3000"], acceleratorType="v4-8", zone=Z, spot=True)
    create(plane, "shared", "v4-8")
    simulation.run(100)
    simulation.job(P, "guest", ["sleep", "50"], slice="shared", zone=Z)
    simulation.run(30)
    running = plane.get_job(P, "guest")
    assert running.chip_hours == pytest.approx(4 * 30 / 3600, rel=0.1)
    simulation.run(100)
    own, guest = plane.get_job(P, "own"), plane.get_job(P, "guest")
    assert own.chip_hours == pytest.approx(4 * 229 / 3600, rel=0.02)
    assert own.cost == pytest.approx((own.chip_hours or 0) * 0.9215)
    assert guest.chip_hours == pytest.approx(4 * 50 / 3600, rel=0.03)
    assert guest.cost == pytest.approx((guest.chip_hours or 0) * 3.22)


@pytest.mark.parametrize(
    ("kind", "how", "zone", "dollars"),
    [
        ("v2-8", Provisioning.ON_DEMAND, "us-central1-b", 1.125),
        ("v2-32", Provisioning.ON_DEMAND, "us-central1-a", 1.50),
        ("v5litepod-8", Provisioning.SPOT, "us-west4-a", 0.48),
        ("v6e-8", Provisioning.ON_DEMAND, "europe-west4-a", 2.97),
        ("v6e-8", Provisioning.SPOT, "southamerica-west1-a", None),
        ("v4-8", Provisioning.RESERVED, "us-central2-b", None),
        ("tpu7x-8", Provisioning.ON_DEMAND, "us-central1-c", None),
    ],
)
def test_a_price_is_by_slice_place_and_kind(kind: str, how: Provisioning, zone: str, dollars: float | None) -> None:
    assert price_of(accelerator_type(kind), how, zone) == dollars


def test_all_that_is_offered_has_a_price_but_for_the_newest() -> None:
    for generation, sizes, zones in OFFERS:
        of_it = [kind for kind in ACCELERATOR_TYPES.values() if kind.generation.name == generation]
        small, large = of_it[0], of_it[-1]
        for zone in zones.split():
            for kind in [large] if sizes == "pod slices" else [small] if sizes else [small, large]:
                known = price_of(kind, Provisioning.ON_DEMAND, zone)
                assert (known is None) == (generation == "7x"), (kind.name, zone)


def test_a_budget_warns_and_one_that_stops_ends_what_there_is(simulation: Simulation) -> None:
    plane = simulation.plane
    plane.set_budget(Budget(project=P, amount=20.0, stop=True))
    create(plane, "a", "v4-32")
    create(plane, "other", "v4-32", project="other")
    simulation.run(3)
    simulation.clock.now += 1800.0
    simulation.run(2)
    budget = plane.status(P).budget
    assert budget is not None
    assert budget.spent == pytest.approx(16 * 3.22 / 2, rel=0.01)
    with pytest.raises(ApiError, match=r"the budget of project local, \$20.00 a month, is spent"):
        create(plane, "b")
    with pytest.raises(ApiError, match="is spent"):
        queue(plane, "q")
    simulation.run(40)
    assert plane.get_node(P, Z, "a").state is NodeState.PREEMPTED
    assert plane.get_node("other", Z, "other").state is NodeState.READY
    plane.set_budget(Budget(project=P, amount=2000.0))
    create(plane, "b")
    assert plane.list_budgets("other").budgets == []
    with pytest.raises(ApiError, match="is not between 0 and"):
        plane.set_budget(Budget(project=P, amount=-1))


def test_a_budget_counts_from_the_start_of_the_month() -> None:
    middle = datetime(2026, 12, 15, 12, 0, tzinfo=UTC).timestamp()
    assert month_start(middle) == datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def test_the_limit_of_all_regions_is_for_those_without_their_own(simulation: Simulation) -> None:
    plane = simulation.plane
    limit(plane, 0)
    limit(plane, 8, location=R)
    create(plane, "a")
    assert {quota.location: quota.in_use for quota in plane.list_quotas(P).quotas} == {"*": 0, R: 8}
