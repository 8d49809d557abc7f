"""What counts as in use on a core."""

from __future__ import annotations

import numpy as np
import pytest

from backend.errors import ResourceExhausted
from backend.runtime.hbm import Hbm

PLACES = ["0x0x0_HBM0", "0x0x0_HBM1", "1x0x0_HBM0", "1x0x0_HBM1"]
ALL = range(4)


@pytest.fixture
def hbm() -> Hbm:
    return Hbm(PLACES, 100)


def test_what_a_running_program_has_is_in_use_until_it_ends(hbm: Hbm) -> None:
    everywhere = hbm.cores(ALL)
    hbm.hold(everywhere, 40)
    assert hbm.in_use.tolist() == [40] * 4
    hbm.settle(everywhere, 40, [10, 20])
    assert hbm.in_use.tolist() == [30] * 4
    assert hbm.allocations.tolist() == [2] * 4
    assert hbm.largest.tolist() == [20] * 4


def test_cores_are_indexed_in_their_order(hbm: Hbm) -> None:
    for ids in ([0, 1, 2, 3], [2, 3], [3, 1], [0]):
        assert np.arange(4)[hbm.cores(ids).index].tolist() == ids


def test_a_buffer_that_does_not_fit_is_refused_in_the_tpu_runtimes_words_and_changes_nothing(hbm: Hbm) -> None:
    hbm.allocate(hbm.cores([3]), 60, "a buffer")
    with pytest.raises(ResourceExhausted) as refused:
        hbm.allocate(hbm.cores([2, 3]), 50, "a float32[4] buffer")
    assert refused.value.message == (
        "Error allocating device buffer: Attempting to allocate 50B. That was not possible. There are 40B free.; "
        "(1x0x0_HBM1), for a float32[4] buffer on core 3"
    )
    assert hbm.in_use.tolist() == hbm.peak.tolist() == [0, 0, 0, 60]
    assert hbm.allocations.tolist() == [0, 0, 0, 1]


def test_a_program_that_does_not_find_its_memory_is_refused_in_the_tpu_runtimes_words() -> None:
    hbm = Hbm(PLACES, 4 << 30)
    hbm.allocate(hbm.cores([0]), 1 << 30, "a buffer")
    with pytest.raises(
        ResourceExhausted, match=r"Attempting to reserve 3.50G at the bottom of memory\. That was not"
    ) as e:
        hbm.require(hbm.cores(ALL), 7 << 29, "the results and temporaries of jit_step")
    assert "There are 3.00G free, 0B reserved, and 3.00G reservable.; (0x0x0_HBM0)" in e.value.message
    assert hbm.peak[0] == 1 << 30


def test_freed_memory_can_be_had_whole_whatever_was_freed(hbm: Hbm) -> None:
    """Fragmentation invents no failure."""
    for _ in range(10):
        hbm.allocate(hbm.cores(ALL), 10, "a buffer")
    for _ in range(5):
        hbm.free(hbm.cores(ALL), 10)
    hbm.allocate(hbm.cores(ALL), 50, "a buffer")
    assert hbm.in_use.tolist() == hbm.peak.tolist() == [100] * 4
    assert hbm.largest.tolist() == [50] * 4
