"""run job and logs: what is asked for, what is passed through, and what is printed at the end."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

JOBS = "/tpuctl/v1/projects/local/jobs"


def log(offset, text, stream="stdout"):
    return {"type": "log", "offset": offset, "stream": stream, "time": 0.0, "text": text}


def metrics(**values):
    return {"type": "metrics", "values": values}


@pytest.fixture
def job(plane):
    """A job that every POST makes: it prints, logs metrics and succeeds."""
    job = plane.add_job("train-1")
    plane.set(JOBS, job | {"state": "QUEUED", "exitCode": None}, "POST")
    plane.streams[f"{JOBS}/train-1:watch"] = [
        {"type": "progress", "message": "creating slice train-1"},
        {"type": "job", "job": job | {"state": "RUNNING"}},
        log(1, "hello\n"),
        log(2, "careful\n", "stderr"),
        *(metrics(epoch=1, epochs=1, step=step, steps=5, loss=1 / step, time=float(step)) for step in range(1, 6)),
        log(3, "half a line"),
        {"type": "job", "job": job},
    ]
    plane.streams[f"{JOBS}/train-1/logs"] = [log(1, "hello\n"), log(2, "careful\n", "stderr")]
    return job


def request_of(plane):
    [body] = [body for method, path, body in plane.requests if (method, path) == ("POST", JOBS)]
    return body


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train_me.py").write_text("print('hello')\n")
    return "train_me.py"


def test_a_script_runs_with_this_python_and_environment_on_a_slice_of_its_own(tpuctl, plane, job, script, monkeypatch):
    monkeypatch.setenv("MY_SETTING", "1")
    tpuctl("run", "job", script, "--depth", "3")
    body = request_of(plane)
    assert body["command"] == [sys.executable, script, "--depth", "3"]
    assert body["workingDirectory"] == str(Path.cwd())
    assert body["environment"]["MY_SETTING"] == "1"
    assert body["acceleratorType"] == "v3-8"
    assert body["name"].startswith("train-me-")
    assert "slice" not in body


@pytest.mark.parametrize(
    ("options", "wanted", "zone"),
    [
        (["--generation", "v4", "--topology", "4x4x16"], {"type": "V4", "topology": "4x4x16"}, "us-central2-b"),
        (["-g", "v4", "--topology", "4x4x8"], "v4-256", "us-central2-b"),
        (["--type", "v3-32", "--topology", "4x4"], "v3-32", "europe-west4-a"),
        (["--topology", "4x4"], "v3-32", "europe-west4-a"),
    ],
)
def test_a_slice_can_be_asked_for_by_its_shape(tpuctl, plane, job, script, options, wanted, zone):
    tpuctl("run", "job", *options, script)
    body = request_of(plane)
    assert (body.get("acceleratorType") or body["acceleratorConfig"]) == wanted
    assert body["zone"] == zone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--generation", "v4"], "give --type, or --generation with --topology"),
        (["--type", "v4-8", "--generation", "v4", "--topology", "2x2x1"], "give --type, or --generation"),
        (["--generation", "v4", "--topology", "2x4x2"], "use 2x2x4"),
        (["--topology", "3x3"], '"3x3" is not a topology of v3'),
        (["--slice", "a", "--topology", "4x4"], "--slice names a slice that is there"),
        (["--scale", "v3-8,v3-32", "--topology", "4x4"], "--scale goes with no other"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_before_anything_is_asked_for(tpuctl, plane, script, options, message):
    result = tpuctl("run", "job", *options, script)
    assert result.exit_code == 2
    assert message in result.stderr
    assert plane.requests == []


def test_what_follows_a_file_is_the_file_s(tpuctl, plane, job, script):
    own = ["--name", "foo", "-o", "out", "--type", "big", "--keep", "--", "-h"]
    tpuctl("run", "job", "--slice", "s3", "--name", "mine", script, *own)
    body = request_of(plane)
    assert body["command"][2:] == own
    assert (body["slice"], body["name"]) == ("s3", "mine")
    assert "keepSlice" not in body or not body["keepSlice"]


def test_what_follows_a_bare_command_is_the_command_s(tpuctl, plane, job):
    tpuctl("run", "job", "--slice", "s3", "sh", "-c", "exit 0", "--name", "foo")
    assert request_of(plane)["command"] == ["sh", "-c", "exit 0", "--name", "foo"]


def test_with_a_model_own_options_are_taken_wherever_they_stand(tpuctl, plane, job):
    tpuctl("run", "job", "mnist", "--keep", "--epochs", "3", "--type", "v2-8", "--name", "mine")
    body = request_of(plane)
    assert body["command"][3:] == ["--epochs", "3"]
    assert (body["keepSlice"], body["acceleratorType"], body["name"]) == (True, "v2-8", "mine")


def test_after_two_dashes_everything_is_the_command_s(tpuctl, plane, job):
    tpuctl("run", "job", "--slice", "demo", "--", "sh", "-c", "exit 0", "--keep")
    body = request_of(plane)
    assert body["command"] == ["sh", "-c", "exit 0", "--keep"]
    assert body["slice"] == "demo"
    assert "acceleratorType" not in body


def test_a_model_runs_as_a_module(tpuctl, plane, job):
    tpuctl("run", "job", "mnist", "--epochs", "2")
    body = request_of(plane)
    assert body["command"] == [sys.executable, "-m", "tpuctl.zoo.mnist", "--epochs", "2"]
    assert body["name"].startswith("mnist-")


def test_output_passes_through_untouched_on_its_own_stream(tpuctl, job, script):
    result = tpuctl("run", "job", script)
    assert result.stdout == "hello\nhalf a line"
    assert "careful\n" in result.stderr


def test_the_end_is_a_loss_curve_the_artifacts_and_both_clocks(tpuctl, job, script):
    text = tpuctl("run", "job", script).stderr
    assert "Creating slice train-1" in text
    assert "loss" in text
    assert any("\u2800" < letter <= "\u28ff" for letter in text)
    assert "/home/me/jobs/1/artifacts/curves.png" in text
    assert "Job train-1 succeeded: 12.5 s on this host, 30 ms of device time (simulated)" in text


def test_a_watch_that_breaks_off_is_taken_up_where_it_was(tpuctl, plane, job, script, monkeypatch):
    events = plane.streams[f"{JOBS}/train-1:watch"]
    again = metrics(epoch=1, epochs=1, step=1, steps=5, loss=1.0, time=1.0)
    events[5:5] = [{"type": "cut"}, again]
    ended = plane.answers.pop(f"GET {JOBS}/train-1")[1]
    plane.set(f"{JOBS}/train-1", ended | {"state": "RUNNING"})
    from tpuctl.cli import plane as way

    def reconnect():
        plane.set(f"{JOBS}/train-1", ended)
        return connect()

    connect = way.connect
    monkeypatch.setattr("tpuctl.cli.follow.connect", reconnect)
    result = tpuctl("run", "job", script)
    assert result.exit_code == 0
    assert result.stdout == "hello\nhalf a line"
    assert "The control plane has gone" in result.stderr
    assert re.search(r"\n +1 +step +5\n", result.stderr)
    assert [path for _, path, _ in plane.requests if ":watch" in path][1].endswith("offset=2")


def test_json_is_one_object_and_all_that_is_on_stdout(tpuctl, job, script):
    result = tpuctl("run", "job", "-o", "json", script)
    assert "hello\n" in result.stderr
    assert json.loads(result.stdout) == {
        "name": "train-1",
        "state": "SUCCEEDED",
        "exitCode": 0,
        "slice": "train-1",
        "metrics": {"loss": 0.25, "accuracy": 0.96, "epoch": 2, "epochs": 2, "step": 15, "steps": 15},
        "artifacts": ["/home/me/jobs/1/artifacts/curves.png"],
        "hostSeconds": 12.5,
        "deviceSeconds": 0.03,
        "processes": 1,
        "failedWorker": None,
        "error": None,
    }


@pytest.mark.parametrize(
    ("ending", "exit_code", "words"),
    [
        ({"state": "FAILED", "exitCode": 7}, 7, "failed with exit status 7"),
        ({"state": "FAILED", "exitCode": 137, "signal": 9}, 137, "was killed by signal 9"),
        ({"state": "CANCELLED", "exitCode": 143, "signal": 15}, 143, "was cancelled"),
        ({"state": "FAILED", "exitCode": None, "error": {"code": 8, "message": "no capacity"}}, 5, "no capacity"),
        ({"state": "FAILED", "exitCode": None, "metrics": {}}, 1, "failed before it started"),
        ({"state": "FAILED", "exitCode": None}, 1, "was ended while it ran"),
        (
            {"state": "FAILED", "exitCode": None, "metrics": {}, "startTime": "2026-01-01T00:00:00Z"},
            1,
            "was ended while it ran",
        ),
    ],
)
def test_the_job_s_exit_status_is_the_command_line_s(tpuctl, plane, job, script, ending, exit_code, words):
    plane.set(f"{JOBS}/train-1", job | ending)
    result = tpuctl("run", "job", script)
    assert result.exit_code == exit_code
    assert words in result.stderr


def test_no_wait_leaves_the_job_to_itself(tpuctl, plane, job, script):
    result = tpuctl("run", "job", "--no-wait", "-o", "name", script)
    assert (result.exit_code, result.stdout) == (0, "train-1\n")
    assert "tpuctl logs train-1 -f" in result.stderr


def test_a_kept_slice_is_named_at_the_end(tpuctl, plane, job, script):
    plane.set(f"{JOBS}/train-1", job | {"keepSlice": True})
    assert "Delete it: tpuctl delete slice train-1" in tpuctl("run", "job", "--keep", script).stderr


@pytest.mark.parametrize(
    ("words", "exit_code", "message", "hint"),
    [
        (["train_mee.py"], 3, "script not found: train_mee.py", "did you mean 'train_me.py'?"),
        (["mnits"], 3, "neither a model, a Python file nor a command", "did you mean 'mnist'?"),
        (["mnist", "--epoch", "3"], 2, "mnist has no option --epoch", "did you mean '--epochs'?"),
        (["mnist", "--epochs", "x"], 2, "mnist: --epochs: 'x' is not a whole number from 1", "-- mnist --help"),
        (["mnist", "--batch-size", "0"], 2, "mnist: --batch-size/--batch: '0' is not a whole number from 1", ""),
        (["mnist", "--epochs"], 2, "mnist: --epochs: expected one argument", ""),
        (["mnist", "--data", "nowhere"], 2, "mnist: --data: no such folder: nowhere", ""),
        (["mnist", "10"], 2, "mnist has no option 10", "it takes --epochs"),
        (["--", "python3", "nope.py"], 3, "script not found: nope.py", ""),
        (["--", "nosuchprog"], 3, "command not found: nosuchprog", ""),
        (["--epochs", "3", "mnist"], 2, "no such option: --epochs", "tpuctl's own options come first"),
        (["--slice", "a", "--type", "v3-8", "train_me.py"], 2, "--slice names a slice that is there", ""),
    ],
)
def test_what_cannot_start_is_refused_before_anything_is_asked_for(
    tpuctl, plane, script, words, exit_code, message, hint
):
    result = tpuctl("run", "job", *words)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert hint in result.stderr
    assert plane.requests == []


class Installed(NamedTuple):
    """A distribution as pip has recorded it."""

    direct_url: str | None

    def read_text(self, name):
        return {"direct_url.json": self.direct_url}[name]


@pytest.mark.parametrize(
    ("direct_url", "words"),
    [
        (None, "'tpuctl[{extra}]'"),
        ('{"url": "file:///home/me/my%20tpuctl", "dir_info": {}}', "'/home/me/my tpuctl[{extra}]'"),
        ('{"url": "file:///src/tpuctl", "dir_info": {"editable": true}}', "-e '/src/tpuctl[{extra}]'"),
        ('{"url": "file:///tmp/tpuctl.whl", "archive_info": {}}', "'tpuctl[{extra}]'"),
    ],
)
def test_without_its_packages_it_says_what_to_install(tpuctl, plane, script, monkeypatch, direct_url, words):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("tpuctl.cli.launch.distribution", lambda name: Installed(direct_url))
    result = tpuctl("run", "job", script)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "tpuctl: a job on a slice needs jax"
    assert f"{sys.executable} -m pip install {words.format(extra='jax')}" in result.stderr
    result = tpuctl("run", "job", "mnist")
    assert "mnist needs jax, keras, matplotlib, mlxtend and h5py\n" in result.stderr
    assert f"pip install {words.format(extra='train')}" in result.stderr
    assert plane.requests == []


def test_logs_prints_what_there_is_on_the_streams_it_came_from(tpuctl, job):
    result = tpuctl("logs", "train-1")
    assert (result.stdout, result.stderr) == ("hello\n", "careful\n")


def test_logs_follows_to_the_end(tpuctl, job):
    assert tpuctl("logs", "train-1", "-f").stdout == "hello\nhalf a line"
