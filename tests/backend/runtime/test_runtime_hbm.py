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


def test_what_does_not_fit_is_refused_with_sizes_and_changes_nothing() -> None:
    core = CoreHbm(3, 100)
    core.allocate(60, "a buffer")
    with pytest.raises(ResourceExhausted, match=r"allocate 50B for a result on core 3.*40B free of 100B"):
        core.allocate(50, "a result")
    assert (core.bytes_in_use, core.peak_bytes) == (60, 60)
