"""Links of every published topology against the closed formula; neighbours, wrap-around and twists."""

from __future__ import annotations

import math

import pytest

from backend.hardware import ACCELERATOR_TYPES, AcceleratorType, Torus, accelerator_type, slice_of
from backend.hardware.topologies import may_twist
from backend.hardware.torus import link_count

DIFFERENT = {(kind.shape, kind.wrap): kind for kind in ACCELERATOR_TYPES.values()}.values()
TWISTABLE = [kind for kind in ACCELERATOR_TYPES.values() if may_twist(kind.generation, kind.shape)]


def formula(kind: AcceleratorType) -> int:
    """3 n of a 3D torus, 2 n of a 2D torus; less one face for each axis that does not wrap."""
    faces = sum(kind.num_chips // size for size, wraps in zip(kind.shape, kind.wrap, strict=True) if not wraps)
    return len(kind.shape) * kind.num_chips - faces


@pytest.mark.parametrize("kind", DIFFERENT, ids=lambda kind: kind.name)
def test_every_published_topology_has_the_links_of_the_formula(kind: AcceleratorType) -> None:
    assert link_count(kind) == formula(kind)
    if kind.num_chips <= 1024:
        links = list(Torus(kind).links())
        assert len({link.ends for link in links}) == len(links) == formula(kind)


@pytest.mark.parametrize("name", ["v3-2048", "v4-8192"])
def test_every_chip_of_a_full_pod_uses_all_its_links(name: str) -> None:
    kind = accelerator_type(name)
    assert 2 * link_count(kind) == kind.num_chips * kind.generation.ici_links_per_chip


@pytest.mark.parametrize("kind", [kind for kind in TWISTABLE if kind.num_chips <= 1024], ids=lambda kind: kind.name)
def test_a_twisted_torus_has_as_many_links_as_the_torus(kind: AcceleratorType) -> None:
    torus = Torus(kind)
    links = list(torus.links())
    assert len({link.ends for link in links}) == len(links) == link_count(kind)
    assert {len(torus.neighbours(chip)) for chip in torus.chips()} == {6}


def test_the_published_twistable_shapes_are_twistable() -> None:
    shapes = {kind.topology for kind in TWISTABLE if kind.generation.name == "v5p"}
    assert shapes == {"4x4x8", "4x8x8", "8x8x16", "8x16x16", "12x12x24", "12x24x24"}


def test_a_wrap_link_of_a_short_axis_lands_half_the_long_axis_further() -> None:
    torus = Torus(slice_of("v4", "4x4x8_twisted"))
    wraps = [link for link in torus.links() if link.wraps]
    assert {(b.neighbour[2] - b.chip[2]) % 8 for b in wraps if b.axis < 2} == {4}
    assert {link.neighbour[2] for link in wraps if link.axis == 2} == {0}


def test_a_twist_with_two_long_axes_shifts_both() -> None:
    torus = Torus(slice_of("v4", "4x8x8_twisted"))
    link = torus.next_chip((3, 1, 2), 0)
    assert link is not None
    assert link.neighbour == (0, 5, 6)


@pytest.mark.parametrize(
    "kind", [slice_of("v4", "4x4x8_twisted"), accelerator_type("v3-32"), accelerator_type("v4-64")]
)
def test_neighbours_are_mutual(kind: AcceleratorType) -> None:
    torus = Torus(kind)
    for chip in torus.chips():
        assert all(chip in torus.neighbours(other) for other in torus.neighbours(chip))


def test_a_corner_of_a_slice_without_wrap_has_two_neighbours() -> None:
    assert sorted(Torus(accelerator_type("v3-32")).neighbours((0, 0, 0))) == [(0, 1, 0), (1, 0, 0)]


def test_a_corner_of_a_full_pod_is_linked_to_the_other_ends() -> None:
    neighbours = Torus(accelerator_type("v3-2048")).neighbours((0, 0, 0))
    assert sorted(neighbours) == [(0, 1, 0), (0, 31, 0), (1, 0, 0), (31, 0, 0)]


def test_a_twist_shortens_the_longest_way() -> None:
    plain, twisted = (farthest(slice_of("v4", topology)) for topology in ("4x4x8_untwisted", "4x4x8"))
    assert plain == 2 + 2 + 4
    assert twisted < plain


def farthest(kind: AcceleratorType) -> int:
    torus = Torus(kind)
    distance, edge = {(0, 0, 0): 0}, [(0, 0, 0)]
    while edge:
        chip = edge.pop(0)
        for other in torus.neighbours(chip):
            if other not in distance:
                distance[other] = distance[chip] + 1
                edge.append(other)
    assert len(distance) == math.prod(kind.shape)
    return max(distance.values())
