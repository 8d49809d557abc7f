"""Faults: from what people write to what is broken, and the errors for what makes no sense."""

from __future__ import annotations

import pytest

from backend.errors import InvalidArgument
from backend.hardware import accelerator_type
from backend.ici.faults import NO_FAULTS, Faults, FaultyParts

PARTS = FaultyParts(accelerator_type("v3-32"))
CUBE = FaultyParts(accelerator_type("v4-16"), slices=2)


def fail(part: str, *where: str, parts: FaultyParts = PARTS, index: int = 0, faults: Faults = NO_FAULTS) -> Faults:
    return parts.changed(faults, part, list(where), recover=False, slice_index=index)


def test_a_link_is_given_by_its_ends_in_any_order() -> None:
    assert fail("link", "0,1", "0,0").links == {(0, (0, 0, 0), (0, 1, 0))}
    assert fail("link", "0,0", "0,1,0") == fail("link", "(0,1)", "0,0")


def test_a_host_takes_its_chips_with_it() -> None:
    faults = fail("host", "1")
    assert faults.chips == {(0, (x, y, 0)) for x in (2, 3) for y in (0, 1)}
    assert faults.text() == "host 1 has failed"


def test_a_host_of_a_multislice_counts_over_all_slices() -> None:
    assert {index for index, _ in fail("host", "3", parts=CUBE).chips} == {1}


def test_several_faults_are_told_together() -> None:
    faults = fail("chip", "1,1,1", parts=CUBE, index=1)
    faults = fail("link", "0,0,0", "0,0,1", parts=CUBE, faults=faults)
    assert faults.text() == "link (0,0,0)-(0,0,1) and chip (1,1,1) of slice 1 have failed"


def test_a_part_that_recovers_is_whole_again() -> None:
    for part, where in (("link", ["0,0", "0,1"]), ("chip", ["2,2"]), ("host", ["0"])):
        faults = PARTS.changed(NO_FAULTS, part, where, recover=False)
        assert faults
        assert PARTS.changed(faults, part, where, recover=True) == NO_FAULTS


@pytest.mark.parametrize(
    ("part", "where", "message"),
    [
        ("chip", ["9,9"], r'"9,9" is not a chip of a 4x4 slice; chips are 0,0 to 3,3'),
        ("chip", ["one"], "is not a chip"),
        ("chip", ["-1,0"], "is not a chip"),
        ("chip", [], "give a chip's coordinates"),
        ("link", ["0,0"], "two chips it joins, such as 0,0 0,1"),
        ("link", ["0,0", "2,0"], r"not linked; \(0,0,0\) is linked to \(0,1,0\), \(1,0,0\)"),
        ("link", ["0,0", "0,0"], "not linked"),
        ("host", ["4"], r'"4" is not a host of this slice; it has hosts 0 to 3'),
        ("host", ["x"], "is not a host"),
        ("fan", ["0"], "use link, chip or host"),
    ],
)
def test_what_makes_no_sense_is_told_with_what_would(part: str, where: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        fail(part, *where)


def test_a_part_fails_once_and_recovers_once() -> None:
    faults = fail("chip", "0,0")
    with pytest.raises(InvalidArgument, match=r"chip \(0,0,0\) has failed already"):
        fail("chip", "0,0", faults=faults)
    with pytest.raises(InvalidArgument, match=r"host 0 has not failed"):
        PARTS.changed(faults, "host", ["0"], recover=True)


def test_a_slice_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="there is no slice 2, only 0 to 1"):
        fail("chip", "0,0,0", parts=CUBE, index=2)
