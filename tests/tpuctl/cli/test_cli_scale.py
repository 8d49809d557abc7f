"""run job --scale: the same job on one slice after the other, and how they compare."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from backend.hardware import accelerator_type
from tpuctl.api.errors import FailedPrecondition
from tpuctl.api.jobs import Job, JobRequest
from tpuctl.cli import follow
from tpuctl.cli.launch import Launch
from tpuctl.cli.output import Format
from tpuctl.cli.scale import Measured, comparison, kinds, run_on_each, with_measured
from tpuctl.cli.scale_picture import figure

JOBS = "/tpuctl/v1/projects/local/jobs"


def measured(job, kind, device, host):
    return Measured(accelerator_type(kind), Job.model_validate(job), device, host)


@pytest.fixture
def made(plane, tmp_path, monkeypatch):
    """The job that every POST makes and watches; it has measured its steps."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    (tmp_path / "job" / "artifacts").mkdir(parents=True)
    found = {"device_step_seconds": 2e-3, "host_step_seconds": 0.5}
    job = plane.add_job("job", metrics=found, directory=str(tmp_path / "job"))
    plane.set(JOBS, job | {"state": "QUEUED", "exitCode": None}, "POST")
    plane.streams[f"{JOBS}/job:watch"] = [
        {"type": "log", "offset": 1, "stream": "stdout", "time": 0.0, "text": "hello\n"},
        {"type": "job", "job": job},
    ]
    return job


def bodies(plane):
    return [body for method, path, body in plane.requests if (method, path) == ("POST", JOBS)]


def test_each_type_has_a_job_of_its_own_driven_by_one_process(tpuctl, plane, made):
    result = tpuctl("run", "job", "--scale", "v3-8,v3-32", "train.py", "--depth", "3")
    assert result.exit_code == 0
    assert [(body["acceleratorType"], body["processes"]) for body in bodies(plane)] == [("v3-8", 1), ("v3-32", 1)]
    assert all(body["command"][-2:] == ["--depth", "3"] for body in bodies(plane))
    assert len({body["name"] for body in bodies(plane)}) == 2
    assert "hello" not in result.stdout
    assert re.search(r"v3-8 +2x2 +4 +8 +2 ms +1.00x +100.0% +\S+ +500 ms", result.stdout)
    assert re.search(r"v3-32 +4x4 +16 +32 +2 ms +1.00x +25.0%", result.stdout)
    assert "simulated" in result.stdout


def test_a_picture_lies_with_the_last_job_s_artifacts(tpuctl, made, tmp_path):
    pytest.importorskip("matplotlib")
    shown = json.loads(tpuctl("run", "job", "--scale", "v3-8,v3-32", "-o", "json", "train.py").stdout)
    assert shown["picture"] == str(tmp_path / "job" / "artifacts" / "scale.png")
    assert Path(shown["picture"]).read_bytes().startswith(b"\x89PNG")
    assert [row["type"] for row in shown["rows"]] == ["v3-8", "v3-32"]


def test_a_job_that_fails_is_told_and_the_others_are_compared(tpuctl, plane, made):
    failed = made | {"state": "FAILED", "exitCode": 3}
    plane.set(f"{JOBS}/job", failed)
    result = tpuctl("run", "job", "--scale", "v3-8,v3-32", "train.py")
    assert result.exit_code == 3
    assert result.stderr.count("exit status 3 (tpuctl logs job)") == 2
    assert "hello" in result.stderr
    assert result.stdout == ""


def test_no_picture_is_drawn_of_jobs_without_steps(tpuctl, plane, made):
    plane.set(f"{JOBS}/job", made | {"metrics": {}, "metricsTail": [], "deviceSeconds": None})
    result = tpuctl("run", "job", "--scale", "v3-8,v3-32", "-o", "json", "train.py")
    assert (result.exit_code, json.loads(result.stdout)["picture"]) == (0, None)
    assert "No picture: the job has no steps" in result.stderr
    assert "Warning" not in result.stderr


class EndsInTime:
    """A client whose jobs all end right after Ctrl-C, before they could be cancelled."""

    def __init__(self, job):
        self.job = Job.model_validate(job)
        self.made = 0

    def create_job(self, request):
        self.made += 1
        return self.job

    def watch_job(self, name):
        raise KeyboardInterrupt

    def cancel_job(self, name):
        raise FailedPrecondition(f"job {name} has already ended")

    def list_nodes(self):
        return []


def test_ctrl_c_ends_the_comparison_even_if_the_job_has_just_ended(made):
    client = EndsInTime(made)
    request = JobRequest(name="train", command=["true"], working_directory="/")
    assert run_on_each(client, request, kinds("v3-8,v3-32"), Format.JSON) == 130
    assert client.made == 1


def test_ctrl_c_is_forgotten_if_the_job_has_just_ended(made, monkeypatch):
    monkeypatch.setattr(follow.terminal, "is_interactive", lambda: False)
    assert follow._cancelled(EndsInTime(made), "job") is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "v3-8"], "--scale takes two or more different types"),
        (["--scale", "v3-8,v3-8"], "--scale takes two or more different types"),
        (["--scale", "v3-8,v3-33"], '"v3-33" is not an accelerator type'),
        (["--scale", "v3-8,v3-32", "--slice", "mine"], "--scale goes with no other"),
        (["--scale", "v3-8,v3-32", "--processes", "4"], "--scale goes with no other"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_made(tpuctl, plane, made, options, message):
    result = tpuctl("run", "job", *options, "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert bodies(plane) == []


def test_speed_up_and_efficiency_are_against_the_first(made):
    rows = comparison(
        [measured(made, "v3-8", 8e-3, 1.0), measured(made, "v3-32", 4e-3, 2.0), measured(made, "v4-8", None, 1.0)]
    )
    assert [row["speedUp"] for row in rows] == [1.0, 2.0, None]
    assert [row["efficiency"] for row in rows] == [1.0, 0.5, None]
    assert [row["devices"] for row in rows] == [8, 32, 4]


def test_the_picture_has_both_clocks_and_the_ideal(made):
    pytest.importorskip("matplotlib")
    drawn = figure(comparison([measured(made, "v3-8", 8e-3, 1.0), measured(made, "v3-32", 4e-3, 2.0)]))
    times, speeds = drawn.axes
    assert [list(line.get_ydata()) for line in times.lines] == [[8e-3, 4e-3], [1.0, 2.0]]
    assert [list(line.get_ydata()) for line in speeds.lines] == [[1.0, 4.0], [1.0, 2.0]]
    assert "simulated" in times.get_legend().get_texts()[0].get_text()


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ([], ["--steps", "4", "--batch-size", "8192"]),
        (["--batch", "64"], ["--batch", "64", "--steps", "4"]),
        (["--steps=9", "--batch-size=64"], ["--steps=9", "--batch-size=64"]),
    ],
)
def test_a_model_is_measured_with_its_own_options_unless_told(given, command):
    found = with_measured(Launch(given, "mnist"), ("--steps", "4", "--batch-size", "8192"))
    assert found.command == command


def test_types_are_read_as_a_list():
    assert [kind.name for kind in kinds("v3-8, v3-32,")] == ["v3-8", "v3-32"]
