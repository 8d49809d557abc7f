"""Units, bars, curves and the figures of a training."""

from __future__ import annotations

import math

import pytest

from tpuctl.cli import training
from tpuctl.cli.bars import bar
from tpuctl.cli.curve import Point, curve, nice_ticks
from tpuctl.cli.losses import loss_curve
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


def points(*values):
    return [Point(10 * (number + 1), value) for number, value in enumerate(values)]


def test_a_curve_goes_from_its_highest_to_its_lowest_value():
    lines = curve(points(3.0, 2.5, 2.0, 1.5, 1.0), width=20, height=5, title="loss", x_label="step")
    assert lines[0].strip() == "loss"
    assert lines[1].startswith("3 ┤")
    assert lines[3].startswith("2 ┤")
    assert lines[5].startswith("1 ┤")
    assert lines[1][3] != "\u2800"
    assert lines[5][-1] != "\u2800"
    assert lines[1][-1] == lines[5][3] == "\u2800"


def test_a_curve_s_x_axis_says_what_it_counts_and_from_where_to_where():
    assert curve(points(3.0, 2.5, 2.0, 1.5, 1.0), width=20, x_label="step")[-1].split() == ["10", "step", "50"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0312, 2.31, [0, 0.5, 1, 1.5, 2, 2.5]),
        (0.013, 0.47, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (97.2, 98.9, [97, 97.5, 98, 98.5, 99]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (0.5, 0.5, [0.5, 0.75]),
        (0.0, 0.0, [0, 0.5]),
        (1e-7, 9e-7, [0, 2e-7, 4e-7, 6e-7, 8e-7, 1e-6]),
    ],
)
def test_ticks_are_round_numbers_around_the_values(low, high, ticks):
    found = nice_ticks(low, high, most=6)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 6
    if low < high:
        assert found == pytest.approx(ticks)


def test_a_curve_needs_five_finite_values():
    assert curve(points(4.0, 3.0, 2.0, 1.0)) == []
    assert curve(points(math.nan, 4.0, 3.0, 2.0, 1.0)) == []
    assert curve(points(math.nan, 5.0, 4.0, 3.0, 2.0, 1.0)) != []
    assert curve(points(1.0, 1.0, 1.0, 1.0, 1.0)) != []


def test_the_losses_of_steps_are_drawn_without_the_epochs_means():
    steps = [{"epoch": 1, "step": step, "steps": 3, "loss": 3.0 - step} for step in (1, 2)]
    epoch = {"epoch": 1, "step": 3, "steps": 3, "loss": 2.0, "val_loss": 0.5}
    later = [{"epoch": 2, "step": 1, "steps": 3, "loss": 0.5}, {"epoch": 2, "step": 2, "steps": 3, "accuracy": 1}]
    assert loss_curve([*steps, epoch, *later]) == ("step", [(1, 2.0), (2, 1.0), (4, 0.5)])
    assert loss_curve([epoch, epoch | {"epoch": 2}]) == ("epoch", [(1, 2.0), (2, 2.0)])


def test_losses_without_a_place_of_their_own_are_counted():
    assert loss_curve([{"loss": 3.0}, {"loss": 1.0}]) == ("values logged", [(1, 3.0), (2, 1.0)])
    assert loss_curve([{"step": 1, "loss": 3.0}, {"step": 1, "loss": 1.0}]) == ("values logged", [(1, 3.0), (2, 1.0)])
    assert loss_curve([]).points == []


def test_position_counts_steps_over_epochs():
    place = training.position({"epoch": 2, "epochs": 4, "step": 5, "steps": 10})
    assert (place.steps_done, place.steps_in_all, place.share) == (15, 40, 15 / 40)
    assert str(place) == "epoch 2/4, step 5/10"


def test_position_of_a_script_that_only_counts_steps():
    place = training.position({"step": 5, "steps": 10})
    assert (place.steps_done, place.share) == (5, 0.5)
    assert training.position({"loss": 1.0}).share is None


def test_device_time_of_a_step_is_as_measured_or_else_all_over_the_steps():
    job = {"deviceSeconds": 3.0, "metrics": {"step": 6}}
    assert training.device_step_seconds(job) == 0.5
    assert training.device_step_seconds(job | {"metrics": {"step": 6, "device_step_seconds": 0.2}}) == 0.2


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
