"""Units, bars, curves and the figures of a training."""

from __future__ import annotations

import math

import pytest

from tpuctl.cli import training
from tpuctl.cli.bars import bar
from tpuctl.cli.curve import curve
from tpuctl.cli.units import bytes_text, seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (8.12e-4, "812 us"), (0.00431, "4.31 ms"), (12.94, "12.9 s"), (59.99, "1m00s"), (11220, "3h07m")],
)
def test_seconds(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(None, "-"), (0, "0 B"), (1536, "1.5 KiB"), (16 << 30, "16 GiB")])
def test_bytes(count, text):
    assert bytes_text(count) == text


def test_a_bar_fills_in_eighths_and_warns_when_full():
    assert bar(0.5, 4).plain == "██  "
    assert bar(1 / 32, 4).plain == "▏   "
    assert bar(7.0, 4).plain == "████"
    assert "red" in str(bar(0.99, 4).spans[0].style)


def test_a_curve_goes_from_its_highest_to_its_lowest_value():
    lines = curve([3.0, 2.0, 1.0], width=20, height=5, title="loss")
    assert lines[0].strip() == "loss"
    assert lines[1].startswith("3 ┤")
    assert lines[5].startswith("1 ┤")
    assert lines[1][3] != "\u2800"
    assert lines[5][-1] != "\u2800"
    assert lines[1][-1] == lines[5][3] == "\u2800"


def test_a_curve_needs_two_finite_values():
    assert curve([1.0]) == []
    assert curve([math.nan, 1.0]) == []
    assert curve([math.nan, 1.0, 2.0]) != []


def test_position_counts_steps_over_epochs():
    place = training.position({"epoch": 2, "epochs": 4, "step": 5, "steps": 10})
    assert (place.steps_done, place.steps_in_all, place.share) == (15, 40, 15 / 40)
    assert str(place) == "epoch 2/4, step 5/10"


def test_position_of_a_script_that_only_counts_steps():
    place = training.position({"step": 5, "steps": 10})
    assert (place.steps_done, place.share) == (5, 0.5)
    assert training.position({"loss": 1.0}).share is None


def test_step_time_is_measured_within_an_epoch():
    rows = [
        {"epoch": 1, "step": 2, "time": 10.0},
        {"epoch": 1, "step": 6, "time": 12.0},
        {"epoch": 2, "step": 1, "time": 20.0},
    ]
    assert training.host_step_seconds(rows) == 0.5
    assert training.host_step_seconds(rows[2:]) is None


def test_numbers_that_are_not_finite_come_as_text():
    assert math.isnan(training.scalars({"loss": "NaN", "epoch": 1})["loss"])
