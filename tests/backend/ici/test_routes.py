"""Links as arrays, shortest ways, and ways around what has failed."""

from __future__ import annotations

import numpy as np
import pytest

from backend.compiler.program import Collective
from backend.errors import Unavailable
from backend.hardware import ACCELERATOR_TYPES, AcceleratorType, Torus, accelerator_type, slice_of
from backend.hardware.torus import link_count
from backend.ici.faults import Faults
from backend.ici.routes import Routes
from backend.ici.timing import Interconnect

DIFFERENT = {(kind.shape, kind.wrap): kind for kind in ACCELERATOR_TYPES.values()}.values()
GB = 10**9


def test_every_published_topology_has_the_links_of_the_closed_formula() -> None:
    for kind in DIFFERENT:
        routes = Routes(kind)
        links = int((routes.forward >= 0).sum())
        assert links == int((routes.backward >= 0).sum()) == link_count(kind), kind.name


@pytest.mark.parametrize("topology", ["4x4x8_twisted", "4x8x8_twisted", "2x2x4", "4x4x4"])
def test_the_arrays_are_the_torus(topology: str) -> None:
    kind = slice_of("v4", topology)
    routes, torus = Routes(kind), Torus(kind)
    for link in torus.links():
        assert routes.forward[link.axis, routes.chip(0, link.chip)] == routes.chip(0, link.neighbour)


@pytest.mark.parametrize("topology", ["4x4x8_twisted", "4x8x8_twisted", "4x4x8", "2x4x4"])
def test_messages_take_as_few_hops_as_there_can_be(topology: str) -> None:
    kind = slice_of("v4", topology)
    routes = Routes(kind)
    for target in range(1, kind.num_chips, 7):
        loads = routes.no_loads()
        hops = routes.send(np.array([0]), np.array([target]), np.ones(1), loads)
        assert hops == loads.sum() == len(routes.around(0, target))


def test_slices_are_not_linked() -> None:
    routes = Routes(accelerator_type("v4-8"), slices=2)
    with pytest.raises(Unavailable, match=r"from chip \(0,0,0\) to chip \(0,0,0\) of slice 1"):
        routes.around(0, 4)


# Failures


def broken(kind: AcceleratorType, *ends: tuple[int, int, int]) -> Interconnect:
    links = Interconnect(kind)
    links.faults = Faults(links=frozenset((0, *sorted(pair)) for pair in zip(ends[::2], ends[1::2], strict=True)))
    return links


def seconds(links: Interconnect, op: str = "all_gather", nbytes: int = GB, **words: object) -> float:
    return links.seconds([Collective(op, nbytes, **words)], range(links.kind.num_devices))  # type: ignore[arg-type]


def test_a_broken_link_opens_its_ring_and_the_line_that_is_left_takes_twice_as_long() -> None:
    kind = accelerator_type("v5litepod-256")
    row = (tuple(range(16)),)
    whole = seconds(Interconnect(kind), groups=row)
    assert seconds(broken(kind, (3, 0, 0), (4, 0, 0)), groups=row) == pytest.approx(2 * whole)
    assert seconds(broken(kind, (3, 1, 0), (4, 1, 0)), groups=row) == whole


def test_a_broken_link_of_a_line_is_gone_around_and_the_way_around_is_shared() -> None:
    kind = accelerator_type("v3-32")
    whole, worse = seconds(Interconnect(kind), "all_reduce"), seconds(broken(kind, (1, 1, 0), (2, 1, 0)), "all_reduce")
    assert whole < worse < 3 * whole


def test_a_message_over_a_broken_link_goes_around() -> None:
    kind = accelerator_type("v5litepod-16")
    pair = ((0, 1),)
    whole = seconds(Interconnect(kind), "collective_permute", pairs=pair)
    around = seconds(broken(kind, (0, 0, 0), (1, 0, 0)), "collective_permute", pairs=pair)
    assert around == pytest.approx(whole + 2e-6)


def test_what_cannot_go_around_is_told_with_the_coordinates() -> None:
    kind = accelerator_type("v5litepod-4")
    links = broken(kind, (0, 0, 0), (1, 0, 0), (0, 0, 0), (0, 1, 0))
    with pytest.raises(Unavailable) as caught:
        seconds(links, "all_reduce")
    assert caught.value.message == (
        "no way is left from chip (0,0,0) to chip (1,0,0): link (0,0,0)-(0,1,0) and link (0,0,0)-(1,0,0) have failed"
    )


def test_traffic_goes_around_a_failed_chip_that_it_would_pass() -> None:
    kind = accelerator_type("v5litepod-16")
    links = Interconnect(kind)
    groups, op = ((0, 2),), "all_reduce"
    whole = links.seconds([Collective(op, 8, groups)], range(16))
    links.faults = Faults(failed_chips=frozenset({(0, (1, 0, 0))}))
    assert links.seconds([Collective(op, 8, groups)], range(16)) > whole


def test_recovery_brings_the_old_times_back() -> None:
    links = broken(accelerator_type("v3-32"), (0, 0, 0), (1, 0, 0))
    worse = seconds(links)
    links.faults = Faults()
    assert seconds(links) == seconds(Interconnect(links.kind)) < worse


@pytest.mark.parametrize("name", ["v3-2048", "v4-8192"])
def test_a_broken_link_of_a_pod_slows_it_by_less_than_three(name: str) -> None:
    kind = accelerator_type(name)
    whole, worse = seconds(Interconnect(kind), "all_reduce"), seconds(broken(kind, (0, 0, 0), (1, 0, 0)), "all_reduce")
    assert whole < worse < 3 * whole
