"""What counts as in use on a core."""

from __future__ import annotations

import pytest

from backend.errors import ResourceExhausted
from backend.runtime.hbm import CoreHbm, holding


def test_what_a_running_program_has_is_in_use_until_it_ends() -> None:
    core = CoreHbm(0, 100)

    def run() -> None:
        with holding([core], 40):
            assert core.bytes_in_use == 40
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run()
    assert core.bytes_in_use == 0


def test_a_buffer_that_does_not_fit_is_refused_in_the_tpu_runtimes_words_and_changes_nothing() -> None:
    core = CoreHbm(3, 100, "1x0x0_HBM1")
    core.allocate(60, "a buffer")
    with pytest.raises(ResourceExhausted) as refused:
        core.allocate(50, "a float32[4] buffer")
    assert refused.value.message == (
        "Error allocating device buffer: Attempting to allocate 50B. That was not possible. There are 40B free.; "
        "(1x0x0_HBM1), for a float32[4] buffer on core 3"
    )
    assert (core.bytes_in_use, core.peak_bytes) == (60, 60)


def test_a_program_that_does_not_find_its_memory_is_refused_in_the_tpu_runtimes_words() -> None:
    core = CoreHbm(0, 4 << 30, "0x0x0_HBM0")
    core.allocate(1 << 30, "a buffer")
    with pytest.raises(
        ResourceExhausted, match=r"Attempting to reserve 3.50G at the bottom of memory\. That was not"
    ) as e:
        core.require(7 << 29, "the results and temporaries of jit_step")
    assert "There are 3.00G free, 0B reserved, and 3.00G reservable.; (0x0x0_HBM0)" in e.value.message
    assert core.peak_bytes == 1 << 30


def test_freed_memory_can_be_had_whole_whatever_was_freed() -> None:
    """Fragmentation invents no failure."""
    core = CoreHbm(0, 100)
    for _ in range(10):
        core.allocate(10, "a buffer")
    for _ in range(5):
        core.free(10)
    core.allocate(50, "a buffer")
    assert (core.bytes_in_use, core.peak_bytes) == (100, 100)
