"""Launches on the links of a slice: their time, and what faults do to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backend.compiler.program import Collective, Cost
from backend.errors import InvalidArgument
from backend.link.client import fault, status

ONES = np.ones(4, "float32")
COMPUTE_SECONDS = 0.25
"""What the test machine says of each launch."""


@pytest.fixture
def summed(running, connect):
    """A driver with a program on 4 cores, two chips side by side, that all-reduces a gigabyte and 8 bytes."""
    compiled = running.machine.compile
    cost = Cost(collectives=(Collective("all_reduce", 10**9), Collective("all_reduce", 8)))
    running.machine.compile = lambda module, options: replace(compiled(module, options), cost=cost)
    driver = connect()
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(1 + core, ONES, core)
    return driver


def launch(driver, outputs):
    return driver.wait(driver.execute(1, [[1, 2, 3, 4]], outputs))


def link_seconds(running):
    counted = running.chips.counters
    return counted.device_seconds - COMPUTE_SECONDS * counted.programs_run


def test_a_launch_takes_the_time_of_its_collectives_too(running, summed) -> None:
    assert launch(summed, 10) is None
    row = running.chips.type.generation
    expected = 10**9 / row.ici_bytes_per_second_per_link + 2 * row.ici_hop_seconds
    assert link_seconds(running) == pytest.approx(expected, rel=1e-9)


def test_a_failed_link_makes_launches_slower_until_it_recovers(running, summed) -> None:
    seconds = []
    for number, recover in enumerate((None, False, True)):
        if recover is not None:
            fault(running.directory, "link", ["0,0", "1,0"], recover=recover)
        before = link_seconds(running)
        assert launch(summed, 10 + number) is None
        seconds.append(link_seconds(running) - before)
    assert seconds[1] == pytest.approx(seconds[0] + 4e-6, rel=1e-6)  # three hops for one
    assert seconds[2] == pytest.approx(seconds[0], rel=1e-9)


def test_a_link_whose_failure_cuts_the_way_fails_the_launch(running, summed) -> None:
    for ends in (["0,0", "1,0"], ["0,0", "0,1"]):
        fault(running.directory, "link", ends)
    failure = launch(summed, 10)
    assert failure is not None
    assert "no way is left from chip (0,0,0) to chip (1,0,0): link (0,0,0)-(0,1,0)" in failure.message
    assert running.machine.seen == []


@pytest.mark.parametrize(
    ("part", "where", "named"), [("chip", "1,0", "chip (1,0,0)"), ("host", "0", "a chip of host 0, at (0,0,0)")]
)
def test_a_launch_on_what_has_failed_fails_until_it_recovers(running, summed, part, where, named) -> None:
    fault(running.directory, part, [where])
    failure = launch(summed, 10)
    assert failure is not None
    assert failure.message.startswith(f"add1 on 4 runs on {named}")
    fault(running.directory, part, [where], recover=True)
    assert launch(summed, 20) is None


def test_a_launch_elsewhere_goes_on(running, summed) -> None:
    fault(running.directory, "chip", ["1,1"])
    assert launch(summed, 10) is None


def test_status_tells_the_faults(running) -> None:
    assert status(running.directory)["faultText"] is None
    fault(running.directory, "link", ["0,1", "0,0"])
    said = fault(running.directory, "host", ["0"])
    assert said["faultText"] == "link (0,0,0)-(0,1,0) and host 0 have failed"
    assert said["faults"] == [
        {"part": "link", "where": ["0,0,0", "0,1,0"], "sliceIndex": 0},
        {"part": "host", "where": ["0"], "sliceIndex": 0, "chips": ["0,0,0", "0,1,0", "1,0,0", "1,1,0"]},
    ]


def test_a_fault_that_makes_no_sense_is_refused(running) -> None:
    with pytest.raises(InvalidArgument, match="chips are 0,0 to 1,1"):
        fault(running.directory, "chip", ["2,2"])
