"""What a training reports: each batch's own values, and once for each epoch its means."""

from __future__ import annotations

import json

import pytest

from tpuctl import metrics
from tpuctl.zoo.callback import JobMetrics, StepTimes, batch_values


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Reads the rows that have been logged."""
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("TPUCTL_METRICS_FILE", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def train(callback, losses):
    """Call back as Keras does: with the mean of the epoch so far."""
    callback.set_params({"epochs": 2, "steps": len(losses)})
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        for batch in range(len(losses)):
            callback.on_train_batch_end(batch, {"loss": sum(losses[: batch + 1]) / (batch + 1)})
        callback.on_epoch_end(epoch, {"loss": sum(losses) / len(losses), "val_loss": 0.1})


def test_batches_have_their_own_loss_and_the_last_step_is_the_epoch_s(rows):
    train(JobMetrics(every_seconds=0.0), [4.0, 2.0, 1.0, 1.0])
    assert [(row["epoch"], row["step"], row["loss"]) for row in rows()] == [
        (epoch, step, pytest.approx(loss)) for epoch in (1, 2) for step, loss in ((1, 4), (2, 2), (3, 1), (4, 2))
    ]
    assert [row["step"] for row in rows() if "val_loss" in row] == [4, 4]


def test_batches_are_logged_now_and_then_but_every_epoch_is(rows):
    callback = JobMetrics(every_seconds=3600.0)
    callback.logged_at = float("inf")
    train(callback, [4.0, 2.0, 1.0, 1.0])
    assert [row["step"] for row in rows()] == [4, 4]


def test_several_steps_in_one_call_have_their_mean():
    assert batch_values(6, {"loss": 2.0}, 2, {"loss": 4.0}) == {"loss": 1.0}


def test_the_time_of_a_step_is_the_median_without_the_first(rows, monkeypatch):
    device = iter([5.0, 5.1, 5.2, 9.2])
    monkeypatch.setattr(metrics, "device_seconds", lambda: next(device))
    monkeypatch.setattr("tpuctl.zoo.callback.time.monotonic", iter([10.0, 12.0, 14.0, 15.0]).__next__)
    callback = StepTimes()
    for batch in range(4):
        callback.on_train_batch_end(batch)
    callback.on_train_end()
    logged = {name: value for row in rows() for name, value in row.items()}
    assert logged["host_step_seconds"] == pytest.approx(2.0)
    assert logged["device_step_seconds"] == pytest.approx(0.1)


def test_without_a_slice_there_is_no_device_time(rows, monkeypatch):
    monkeypatch.delenv("TPUCTL_SLICE", raising=False)
    callback = StepTimes()
    for batch in range(2):
        callback.on_train_batch_end(batch)
    callback.on_train_end()
    assert [set(row) - {"time"} for row in rows()] == [{"host_step_seconds"}]
