"""Times of collectives against their closed forms, and against what is published of whole pods."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from backend.compiler.program import Collective
from backend.hardware import AcceleratorType, accelerator_type, slice_of
from backend.ici.timing import DCN_LATENCY_SECONDS, Interconnect

GB = 10**9
Groups = tuple[tuple[int, ...], ...]


def seconds(
    kind: AcceleratorType,
    op: str,
    nbytes: int = GB,
    groups: Groups = (),
    *,
    pairs: Groups = (),
    slices: int = 1,
    devices: list[int] | None = None,
) -> float:
    links = Interconnect(kind, slices)
    ids = range(kind.num_devices * slices) if devices is None else devices
    collective = Collective(op, nbytes, groups, tuple((a, b) for a, b in pairs))
    return links.seconds([collective], list(ids))


def rate(kind: AcceleratorType) -> float:
    return kind.generation.ici_bytes_per_second_per_link


def rows(kind: AcceleratorType, axis: int) -> Groups:
    """Groups of the devices of all chips along an axis, for one device a chip."""
    ids = np.arange(kind.num_chips).reshape(kind.shape[::-1])
    lines = np.moveaxis(ids, ids.ndim - 1 - axis, -1).reshape(-1, kind.shape[axis])
    return tuple(map(tuple, lines.tolist()))


# Published figures


@pytest.mark.parametrize(("name", "terabytes"), [("v5litepod-256", 51.2), ("v6e-256", 102.4), ("v4-8192", 1100)])
def test_all_reduce_over_a_pod_has_the_published_bandwidth(name: str, terabytes: float) -> None:
    kind = accelerator_type(name)
    moved = 2 * (kind.num_chips - 1) * GB  # each of the chips sends 2 (n - 1) / n of its data
    assert moved / seconds(kind, "all_reduce") == pytest.approx(terabytes * 1e12, rel=0.01)


@pytest.mark.parametrize(("name", "terabytes"), [("v5litepod-256", 1.6), ("v6e-256", 3.2), ("v4-8192", 24)])
def test_half_a_pod_sends_to_the_other_half_at_the_published_bisection_bandwidth(name: str, terabytes: float) -> None:
    kind = accelerator_type(name)
    half, size = kind.num_chips // 2, 10**10
    moved = size / kind.num_chips * half * half  # every chip to every one of the other half, one way
    assert moved / seconds(kind, "all_to_all", size) == pytest.approx(terabytes * 1e12, rel=0.05)


def test_all_gather_along_one_wrapped_axis_takes_the_bytes_over_the_bandwidth_of_both_ways() -> None:
    """The scaling book: V / W, here over the 16 chips of one axis of a v5e pod."""
    kind = accelerator_type("v5litepod-256")
    expected = GB / (2 * rate(kind)) * 15 / 16
    assert seconds(kind, "all_gather", groups=rows(kind, 0)) == pytest.approx(expected)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_more_axes_have_more_bandwidth(axes: int) -> None:
    """The scaling book: V / (W axes)."""
    kind = accelerator_type("v4-8192")
    ids = np.arange(kind.num_chips).reshape(-1, 16**axes)
    found = seconds(kind, "all_gather", groups=tuple(map(tuple, ids.tolist())))
    assert found == pytest.approx(GB / (2 * rate(kind) * axes), rel=0.07)


def test_small_data_takes_a_hop_s_latency_for_every_step_half_way_round() -> None:
    """The scaling book: at least n / 2 hops of a microsecond."""
    kind = accelerator_type("v5litepod-256")
    assert seconds(kind, "all_gather", 16, rows(kind, 1)) == pytest.approx(8 * 1e-6)


def test_all_to_all_on_a_ring_takes_a_quarter_of_an_all_gather() -> None:
    """The scaling book: V / 4 W of a bidirectional ring, V being what all chips hold together."""
    kind = accelerator_type("v5litepod-256")
    gathered = seconds(kind, "all_gather", 16 * GB, rows(kind, 0))
    exchanged = seconds(kind, "all_to_all", GB, rows(kind, 0))
    assert exchanged == pytest.approx(gathered / 4, rel=0.08)
    assert exchanged == pytest.approx(16 * GB / 8 / rate(kind), rel=0.001)


# Closed forms


def test_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    kind = accelerator_type("v4-128")
    parts = [seconds(kind, op) for op in ("reduce_scatter", "all_gather")]
    assert seconds(kind, "all_reduce") == pytest.approx(sum(parts))


def test_an_axis_without_wrap_takes_twice_as_long() -> None:
    line, ring = slice_of("v5e", "8x8"), slice_of("v5e", "8x16")
    on_line = seconds(line, "all_gather", groups=rows(line, 1))
    on_ring = seconds(ring, "all_gather", groups=rows(ring, 1))
    assert on_line == pytest.approx(GB / rate(line) * 7 / 8)
    assert on_ring == pytest.approx(GB / (2 * rate(ring)) * 15 / 16)


def test_all_to_all_on_a_line_takes_twice_the_time_of_a_ring() -> None:
    line = slice_of("v5e", "8x8")
    assert seconds(line, "all_to_all", GB, rows(line, 0)) == pytest.approx(8 * GB / 4 / rate(line), rel=0.001)


def test_phases_over_two_axes_each_move_what_the_one_before_left() -> None:
    kind = accelerator_type("v3-32")  # 4 x 4 without wrap: lines of 4, half of the data over each axis first
    expected = GB / 2 / rate(kind) * (3 / 4) * (1 + 1 / 4)
    assert seconds(kind, "reduce_scatter") == pytest.approx(expected)


def test_an_axis_that_wraps_takes_the_larger_part_of_the_data() -> None:
    kind = slice_of("v5e", "8x16")
    first, then = 1 / 3 * 7 / 8, 2 / 3 / 16 * 7 / 8  # a third over the line of 8, two over the ring of 16; then turned
    assert seconds(kind, "reduce_scatter") == pytest.approx(GB / rate(kind) * (max(first, 2 / 3 * 15 / 32) + then))


def test_two_neighbours_exchange_over_the_one_link_between_them() -> None:
    kind = accelerator_type("v5litepod-4")
    found = seconds(kind, "all_reduce", groups=((0, 1), (2, 3)))
    assert found == pytest.approx(2 * GB / 2 / rate(kind))


def test_cores_of_one_chip_need_no_link() -> None:
    kind = accelerator_type("v3-8")
    pairs = ((0, 1), (2, 3), (4, 5), (6, 7))
    assert seconds(kind, "all_reduce", groups=pairs) == 0
    assert seconds(kind, "collective_permute", pairs=pairs) == 0


def test_both_cores_of_a_chip_in_one_group_send_their_sum_once() -> None:
    whole, halves = accelerator_type("v3-8"), accelerator_type("v5litepod-4")
    assert seconds(whole, "all_reduce") * rate(whole) == pytest.approx(seconds(halves, "all_reduce") * rate(halves))


def test_cores_of_a_chip_in_different_groups_share_its_links() -> None:
    kind = accelerator_type("v3-8")
    apart = seconds(kind, "all_reduce", groups=((0, 2, 4, 6), (1, 3, 5, 7)))
    assert apart == pytest.approx(2 * seconds(kind, "all_reduce"))


def test_groups_that_are_spread_out_share_the_links_between_them() -> None:
    kind = slice_of("v5e", "16x16")
    near = tuple((y * 16 + x, y * 16 + x + 1) for y in range(16) for x in range(0, 16, 2))
    far = tuple((y * 16 + x, y * 16 + x + 8) for y in range(16) for x in range(8))
    assert seconds(kind, "all_reduce", groups=far) > 3 * seconds(kind, "all_reduce", groups=near)


def test_one_group_alone_is_as_fast_as_many_on_other_links() -> None:
    kind = accelerator_type("v5litepod-256")
    lines = rows(kind, 0)
    assert seconds(kind, "all_gather", groups=lines[:1]) == seconds(kind, "all_gather", groups=lines)


def test_a_program_on_some_of_the_chips_is_timed_where_they_are() -> None:
    kind = accelerator_type("v5litepod-64")
    near, far = seconds(kind, "all_reduce", devices=[0, 1]), seconds(kind, "all_reduce", 1, devices=[0, 63])
    assert near == pytest.approx(GB / rate(kind))
    assert far >= 14 * 1e-6


def test_messages_of_a_permute_take_the_short_way_and_their_own_links() -> None:
    kind = accelerator_type("v5litepod-256")
    ring = tuple((y * 16 + x, y * 16 + (x + 1) % 16) for y in range(16) for x in range(16))
    assert seconds(kind, "collective_permute", pairs=ring) == pytest.approx(GB / rate(kind) + 1e-6)
    across = tuple((y * 16 + x, y * 16 + (x + 4) % 16) for y in range(16) for x in range(16))
    assert seconds(kind, "collective_permute", pairs=across) == pytest.approx(4 * GB / rate(kind) + 4e-6)


def test_the_end_of_a_ring_without_wrap_sends_all_the_way_back() -> None:
    kind = accelerator_type("v5litepod-64")
    ring = tuple((y * 8 + x, y * 8 + (x + 1) % 8) for y in range(8) for x in range(8))
    assert seconds(kind, "collective_permute", pairs=ring) == pytest.approx(GB / rate(kind) + 7e-6)


def test_a_broadcast_goes_round_both_ways_of_a_ring() -> None:
    ring, line = accelerator_type("v5litepod-256"), accelerator_type("v5litepod-64")
    assert seconds(ring, "collective_broadcast") == pytest.approx(GB / 2 / rate(ring) + 16e-6)
    assert seconds(line, "collective_broadcast") == pytest.approx(GB / rate(line) + 14e-6)


def test_groups_that_are_no_boxes_are_rings_through_their_chips() -> None:
    kind = accelerator_type("v5litepod-64")
    bent = ((0, 1, 9),)  # an angle of three chips: the last is two hops from the first
    assert seconds(kind, "all_gather", groups=bent) == pytest.approx(2 * GB / 3 / rate(kind))
    assert seconds(kind, "all_to_all", groups=bent) > 0


def test_groups_of_different_sizes_are_timed_together() -> None:
    kind = accelerator_type("v5litepod-16")
    assert seconds(kind, "all_reduce", groups=((0, 1), (2, 3, 4))) > 0


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_broadcast"])
@pytest.mark.parametrize("name", ["v3-32", "v4-32", "v5litepod-8", "tpu7x-16"])
def test_more_bytes_never_take_less_time(op: str, name: str) -> None:
    kind = accelerator_type(name)
    times = [seconds(kind, op, 10**power) for power in range(1, 10, 2)]
    assert all(a <= b for a, b in itertools.pairwise(times))
    assert times[0] > 0


# Twisted tori


def test_a_twist_keeps_the_bandwidth_of_the_whole_torus() -> None:
    plain, twisted = (slice_of("v4", topology) for topology in ("4x4x8_untwisted", "4x4x8"))
    assert seconds(twisted, "all_reduce") == pytest.approx(seconds(plain, "all_reduce"))


def test_a_twist_opens_the_rings_along_a_short_axis() -> None:
    plain, twisted = (slice_of("v4", topology) for topology in ("4x4x8_untwisted", "4x4x8"))
    along_x = rows(plain, 0)
    assert seconds(twisted, "all_gather", groups=along_x) == pytest.approx(
        2 * seconds(plain, "all_gather", groups=along_x)
    )
    along_z = rows(plain, 2)
    assert seconds(twisted, "all_gather", groups=along_z) == seconds(plain, "all_gather", groups=along_z)


# Several slices


def test_slices_exchange_over_the_network_cards_of_their_hosts() -> None:
    kind = accelerator_type("v4-16")
    inside = seconds(kind, "all_reduce")
    card = kind.generation.dcn_bytes_per_second_per_chip * kind.chips_per_host
    shared = GB / kind.num_chips * kind.chips_per_host  # a host's chips each send their part, to the one other slice
    expected = inside + shared / card + DCN_LATENCY_SECONDS
    assert seconds(kind, "all_reduce", slices=2) == pytest.approx(expected)


def test_a_gather_over_two_slices_brings_each_the_other_s_half() -> None:
    kind = accelerator_type("v4-16")
    network = kind.generation.dcn_bytes_per_second_per_chip * kind.num_chips
    expected = seconds(kind, "all_gather") + GB / 2 / network + DCN_LATENCY_SECONDS
    assert seconds(kind, "all_gather", slices=2) == pytest.approx(expected)


def test_groups_within_their_slices_do_not_use_the_network() -> None:
    kind = accelerator_type("v4-16")
    groups = (tuple(range(8)), tuple(range(8, 16)))
    assert seconds(kind, "all_reduce", groups=groups, slices=2) == pytest.approx(seconds(kind, "all_reduce"))


def test_pairs_across_slices_share_the_card_of_their_host() -> None:
    kind = accelerator_type("v4-16")
    card = kind.generation.dcn_bytes_per_second_per_chip * kind.chips_per_host
    one = seconds(kind, "collective_permute", pairs=((0, 8),), slices=2)
    four = seconds(kind, "collective_permute", pairs=tuple((i, i + 8) for i in range(4)), slices=2)
    assert one == pytest.approx(GB / card + DCN_LATENCY_SECONDS)
    assert four == pytest.approx(4 * GB / card + DCN_LATENCY_SECONDS)


# Speed


def test_a_program_for_a_full_pod_is_timed_in_milliseconds() -> None:
    kind = accelerator_type("v3-2048")
    links, ids = Interconnect(kind), list(range(2048))
    groups = tuple(tuple(range(i, i + 64)) for i in range(0, 2048, 64))
    program = [Collective("all_reduce", GB), Collective("all_gather", GB, groups), Collective("all_to_all", GB, groups)]
    best = min(_timed(links, program, ids) for _ in range(5))
    assert best < 0.05  # of CPU time; some 5 ms on an idle machine


def _timed(links: Interconnect, program: list[Collective], ids: list[int]) -> float:
    links.faults = links.faults  # forget what was measured
    started = time.thread_time()
    links.seconds(program, ids)
    return time.thread_time() - started
