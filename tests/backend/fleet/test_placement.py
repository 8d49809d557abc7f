"""Slices in pods: where they may lie, and what no history of pods may ever show."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from backend.fleet import Layout, Placement, Request, Snapshot, layout_of, place
from backend.fleet.placement import coordinates
from backend.hardware.torus import Coords

PODS = [
    layout_of("v2"),
    layout_of("v3", (8, 12)),
    layout_of("v4", (8, 8, 8)),
    layout_of("v5e"),
    layout_of("v5p", (8, 12, 4)),
    layout_of("v6e", (16, 16)),
    layout_of("7x", (8, 8, 12)),
]
SHAPES_2D = [(1, 1, 1), (2, 2, 1), (2, 4, 1), (4, 4, 1), (4, 8, 1), (8, 8, 1), (8, 12, 1), (16, 16, 1)]
SHAPES_3D = [(2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (8, 4, 4), (4, 8, 8), (8, 8, 8)]


def shapes_of(layout: Layout) -> list[Coords]:
    return SHAPES_2D if layout.unit[2] == 1 else SHAPES_3D


def box(layout: Layout, placement: Placement) -> set[Coords]:
    """The chips of a box from its origin on, around the pod's ends where they are joined."""
    assert placement.origin is not None
    sides = []
    for start, size, whole, wraps in zip(placement.origin, placement.size, layout.shape, layout.wrap, strict=True):
        assert start + size <= whole or wraps
        sides.append([(start + step) % whole for step in range(size)])
    return set(itertools.product(*sides))


def check(snapshot: Snapshot, request: Request, found: Placement, broken: set[Coords]) -> None:
    """A placement is free, whole, of the shape that was asked for, and without broken chips and links."""
    layout, chips = snapshot.layout, set(coordinates(snapshot.layout, found.chips))
    assert not (snapshot.taken & found.chips).any()
    assert not chips & broken
    assert len(chips) == request.num_chips == found.num_chips
    if found.origin is None:
        assert layout.optical
        assert not request.contiguous
        assert set(found.chips.tolist()) <= {0, int(layout.full_mask)}
    else:
        rank = len(layout.generation.pod_shape)
        assert sorted(found.size[:rank]) == sorted(request.shape[:rank])
        assert chips == box(layout, found)
        assert not any({one, other} <= chips for one, other in snapshot.links)


def history(rng: np.random.Generator, layout: Layout, steps: int) -> None:
    """Slices come and go in a pod with broken chips and links."""
    every = list(itertools.product(*map(range, layout.shape)))
    broken = {every[index] for index in rng.integers(len(every), size=rng.integers(4))}
    ends = [every[index] for index in rng.integers(len(every), size=rng.integers(3))]
    links = []
    for end in ends:
        axis = int(rng.integers(2))
        other = list(end)
        other[axis] = (end[axis] + 1) % layout.shape[axis]
        links.append((end, (other[0], other[1], other[2])))
    snapshot = Snapshot.empty(layout, broken, links)
    living: list[Placement] = []
    shapes = shapes_of(layout)
    for _ in range(steps):
        if living and rng.random() < 0.4:
            snapshot = snapshot.without(living.pop(int(rng.integers(len(living)))).chips)
            continue
        request = Request(shapes[rng.integers(len(shapes))], contiguous=bool(rng.integers(2)))
        until = float(rng.exponential(100.0)) if rng.random() < 0.5 else np.inf
        found = place(snapshot, request, until)
        if found is not None:
            check(snapshot, request, found, broken)
            snapshot = snapshot.with_taken(found.chips, until)
            living.append(found)
    assert int(np.bitwise_count(snapshot.taken).sum()) == sum(one.num_chips for one in living) + len(broken)


def test_slices_never_overlap_and_never_have_broken_chips() -> None:
    for seed in range(300):
        history(np.random.default_rng(seed), PODS[seed % len(PODS)], 20)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_slice_overlaps_in_100_000_histories() -> None:
    for seed in range(100_000):
        history(np.random.default_rng(seed), PODS[seed % len(PODS)], 20)


@pytest.mark.parametrize("layout", PODS, ids=lambda layout: f"{layout.generation.name}-{layout.shape}")
def test_what_is_refused_has_no_free_position(layout: Layout) -> None:
    rng = np.random.default_rng(1)
    snapshot = Snapshot.empty(layout)
    while (found := place(snapshot, Request(shapes_of(layout)[rng.integers(2)]))) is not None:
        snapshot = snapshot.with_taken(found.chips)
    free = set(itertools.product(*map(range, layout.shape))) - set(coordinates(layout, snapshot.taken))
    for shape in shapes_of(layout):
        positions = layout.positions(shape)
        for size, origin in zip(positions.sizes, positions.origins, strict=True):
            if not layout.is_small(shape):
                start = tuple(at * unit for at, unit in zip(origin, layout.unit, strict=True))
                placement = Placement(size, (start[0], start[1], start[2]), np.zeros(0, np.uint64))
                assert (
                    not box(layout, placement) <= free or place(snapshot, Request(shape, contiguous=True)) is not None
                )


def test_a_pod_of_one_size_is_filled_to_the_last_chip() -> None:
    for layout, shape in itertools.product(PODS, [(2, 2, 1), (4, 4, 1), (2, 2, 4), (4, 4, 4)]):
        if shape not in shapes_of(layout):
            continue
        snapshot = Snapshot.empty(layout)
        while (found := place(snapshot, Request(shape))) is not None:
            snapshot = snapshot.with_taken(found.chips)
        assert snapshot.num_free_chips == 0


def test_a_whole_pod_is_one_slice() -> None:
    for layout in PODS:
        found = place(Snapshot.empty(layout), Request(layout.shape, contiguous=True))
        assert found is not None
        assert found.origin == (0, 0, 0)
        assert found.num_chips == layout.num_chips
        assert place(Snapshot.empty(layout, [(0, 0, 0)]), Request(layout.shape)) is None


def test_switches_join_any_free_cubes_but_boxes_need_neighbours() -> None:
    layout = layout_of("v4", (8, 8, 8))
    snapshot = Snapshot.empty(layout, broken=[(0, 0, 0), (4, 4, 0), (4, 0, 4), (0, 4, 4)])
    assert place(snapshot, Request((4, 4, 8), contiguous=True)) is None
    found = place(snapshot, Request((4, 4, 16)))
    assert found is not None
    assert found.origin is None


def test_small_slices_share_a_unit_that_is_in_use() -> None:
    layout = layout_of("v3")
    snapshot = Snapshot.empty(layout)
    for _ in range(4):
        found = place(snapshot, Request((2, 2, 1)))
        assert found is not None
        snapshot = snapshot.with_taken(found.chips)
    assert np.count_nonzero(snapshot.taken) == 1


def test_a_short_slice_does_not_keep_a_unit_in_use_that_is_free_sooner() -> None:
    layout = layout_of("v4", (8, 4, 4))
    snapshot = Snapshot.empty(layout)
    long = place(snapshot, Request((2, 2, 1)), 1000.0)
    assert long is not None
    snapshot = snapshot.with_taken(long.chips, 1000.0)
    short = place(snapshot, Request((2, 2, 4)), 10.0)
    assert short is not None
    assert (short.chips & long.chips == 0).all()
    assert short.chips.argmax() == long.chips.argmax()


def test_a_failed_link_keeps_boxes_from_both_of_its_ends() -> None:
    layout = layout_of("v3", (8, 4))
    across = Snapshot.empty(layout, links=[((3, 0, 0), (4, 0, 0))])
    assert place(across, Request((4, 8, 1))) is None
    assert place(across, Request((4, 4, 1))) is not None
    within = Snapshot.empty(layout, links=[((0, 0, 0), (1, 0, 0))])
    found = place(within, Request((4, 4, 1)))
    assert found is not None
    assert found.origin == (4, 0, 0)


@pytest.mark.parametrize("shape", [(16,), (16, 16, 16), (3, 4), (0, 4), (16, 18)])
def test_what_is_no_pod_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"is no pod of v3: it has 2 dimensions, each a multiple of 4"):
        layout_of("v3", shape)


def test_decisions_do_not_change_a_snapshot() -> None:
    layout = layout_of("v4", (8, 8, 8))
    snapshot = Snapshot.empty(layout)
    before = dataclasses.replace(snapshot, taken=snapshot.taken.copy(), until=snapshot.until.copy())
    assert place(snapshot, Request((4, 4, 8)), 5.0) is not None
    assert (snapshot.taken == before.taken).all()
    assert (snapshot.until == before.until).all()
