"""tpuctl.metrics: what a script logs is one JSON line a call."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tpuctl import metrics


@pytest.fixture
def rows(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("TPUCTL_METRICS_FILE", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_each_call_appends_a_row_with_its_time(rows):
    metrics.log(epoch=1, step=2, loss=0.5)
    metrics.log(epoch=1, step=3, loss=0.25)
    first, second = rows()
    assert (first["epoch"], first["step"], first["loss"]) == (1, 2, 0.5)
    assert second["time"] >= first["time"] > 1.6e9


def test_arrays_of_one_number_are_numbers(rows):
    metrics.log(loss=np.float32(0.5), count=np.int64(3), array=np.array(2.0))
    assert {name: value for name, value in rows()[0].items() if name != "time"} == {
        "loss": 0.5,
        "count": 3.0,
        "array": 2.0,
    }


def test_what_json_has_no_number_for_is_spelled_out(rows):
    metrics.log(a=float("nan"), b=float("inf"), c=-float("inf"))
    assert [rows()[0][name] for name in "abc"] == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("value", [None, [1.0], {}])
def test_what_is_no_number_is_refused(rows, value):
    with pytest.raises(TypeError):
        metrics.log(loss=value)


def test_outside_a_job_nothing_happens(tmp_path, monkeypatch):
    monkeypatch.delenv("TPUCTL_METRICS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    metrics.log(loss=1.0)
    assert list(tmp_path.iterdir()) == []


def test_outside_a_slice_there_is_no_device_time(monkeypatch):
    monkeypatch.delenv("TPUCTL_SLICE", raising=False)
    assert metrics.device_seconds() is None


def test_device_time_is_that_of_the_job_on_its_slice(monkeypatch):
    asked = []
    sessions = {"train": {"deviceSeconds": 1.5}, "other": {"deviceSeconds": 9.0}}
    monkeypatch.setattr("backend.link.client.status", lambda folder: asked.append(folder) or {"sessions": sessions})
    monkeypatch.setenv("TPUCTL_SLICE", "unix:///home/me/slices/1/link.sock")
    monkeypatch.setenv("TPUCTL_JOB", "train")
    assert metrics.device_seconds() == 1.5
    monkeypatch.setenv("TPUCTL_JOB", "new")
    assert metrics.device_seconds() == 0.0
    assert asked == ["/home/me/slices/1"] * 2


def test_it_imports_nothing_heavy():
    code = "import sys, tpuctl.metrics; print(sorted({'numpy', 'pydantic', 'httpx', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
