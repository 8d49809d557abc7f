"""Jobs that run again, wait, come in arrays or by schedule: what is asked for, and what is shown of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from tests.tpuctl.cli.conftest import job_resource
from tpuctl.cli.describe_view import MOST_ATTEMPTS, job_view

JOBS = "/tpuctl/v1/projects/local/jobs"
SCHEDULES = "/tpuctl/v1/projects/local/schedules"


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train_me.py").write_text("print('hello')\n")
    return "train_me.py"


def posted(plane, path):
    [body] = [body for method, asked, body in plane.requests if (method, asked) == ("POST", path)]
    return body


def attempt(number, ended="preempted", **fields):
    return {
        "number": number,
        "ended": ended,
        "detail": "slice train-1 was preempted",
        "slice": "train-1",
        "zone": "europe-west4-a",
        "exitCode": 143,
        "hostSeconds": 10.5,
        "metrics": {"step": 12, "steps": 40},
    } | fields


def drawn(job, width, wide=False):
    console = Console(width=width, record=True, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(job_view(job, wide))
    return captured.get()


def test_what_is_said_of_when_it_runs_is_asked_for(tpuctl, plane, script):
    plane.set(JOBS, job_resource("train-1") | {"state": "QUEUED", "waitsFor": "it runs after prep"}, "POST")
    words = "--restart on-failure --max-restarts 5 --checkpoint-dir ck --priority 7 --timeout 1.5h --after prep --spot"
    zones = "--type v5litepod-8 --zone us-west4-a --zone us-central1-a".split()
    result = tpuctl("run", "job", *words.split(), *zones, "--no-wait", script)
    assert result.exit_code == 0, result.stderr
    assert "Job train-1 waits: it runs after prep" in result.stderr
    body = posted(plane, JOBS)
    assert (
        body
        | {
            "restart": "on-failure",
            "maxRestarts": 5,
            "checkpointDir": str(Path.cwd() / "ck"),
            "priority": 7,
            "timeout": 5400,
            "after": ["prep"],
            "spot": True,
            "zone": "us-west4-a",
            "zones": ["us-central1-a"],
            "queue": True,
        }
        == body
    )


def test_who_asks_for_none_of_it_only_lets_the_job_wait(tpuctl, plane, script):
    plane.set(JOBS, job_resource("train-1"), "POST")
    tpuctl("run", "job", "--no-wait", script)
    body = posted(plane, JOBS)
    assert (body["restart"], body["queue"], body["spot"], body["after"]) == ("never", True, False, [])
    assert not {"maxRestarts", "checkpointDir", "timeout", "arrayIndex"} & set(body)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--restart", "sometimes"], "--restart sometimes: there is no such policy"),
        (["--timeout", "soon"], "--timeout soon: that is no length of time"),
        (["--timeout", "0s"], "--timeout 0s: that is no length of time"),
        (["--array", "5-1"], "--array 5-1: '5-1' is no range"),
        (["--array", "1,x"], "--array 1,x: 'x' is no range"),
        (["--array", "0-999,1000-1999"], "is 2000 jobs"),
        (["--array", "0-3", "--scale", "v3-8,v3-32"], "--scale goes with no other"),
        (["--every", "day", "--scale", "v3-8,v3-32"], "--scale goes with no other"),
        (["--slice", "mine", "--spot"], "--slice names a slice that is there"),
        (["--slice", "mine", "--zone", "a", "--zone", "b"], "--slice names a slice that is there"),
        (["--max-restarts", "-1"], "max-restarts"),
        (["--after", "no/job"], "no/job"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked_for(tpuctl, plane, script, words, message):
    result = tpuctl("run", "job", *words, script)
    assert (result.exit_code, plane.requests) == (2, [])
    assert message in result.stderr


def test_an_array_is_one_request_and_one_table(tpuctl, plane, script):
    made = [plane.add_job(f"sweep-{number}", state=state) for number, state in ((0, "SUCCEEDED"), (2, "FAILED"))]
    plane.set(f"{JOBS}:array", {"jobs": made}, "POST")
    result = tpuctl("run", "job", "--array", "0,2", "--name", "sweep", script)
    body = posted(plane, f"{JOBS}:array")
    assert (body["indices"], body["job"]["name"]) == ([0, 2], "sweep")
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["sweep-0", "SUCCEEDED"],
        ["sweep-2", "FAILED"],
    ]
    assert (result.exit_code, "2 jobs: sweep-0 to sweep-2" in result.stderr) == (1, True)


def test_the_list_says_what_queued_jobs_wait_for(tpuctl, plane):
    for number in range(4):
        plane.add_job(f"wait-{number}", state="QUEUED", waitsFor="slice mine is busy: job a has it")
    for number in range(6):
        plane.add_job(f"after-{number}", state="QUEUED", waitsFor=f"it runs after job {number}")
    result = tpuctl("list", "jobs")
    said = result.stderr
    assert "wait-0, wait-1, wait-2 and 1 more wait: slice mine is busy: job a has it" in said
    assert "after-3 waits: it runs after job 3" in said
    assert "after-4" not in said
    assert "and 2 more wait (-o wide)" in said
    assert "wait:" not in result.stdout
    assert tpuctl("list", "jobs", "-o", "json").stderr == ""


@pytest.mark.parametrize("width", [80, 120])
def test_attempts_are_a_table_that_fits(width):
    reason = "slice train-1 is unhealthy: chip (0,0,0) has failed"
    attempts = [attempt(1), attempt(2, "slice broken", detail=reason)]
    job = job_resource("train-1") | {"state": "QUEUED", "exitCode": None, "attempt": 3, "attempts": attempts}
    job |= {"waitsFor": "slice train-1 is CREATING", "restart": "on-preemption", "priority": 2}
    text = drawn(job, width)
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("preempted", "143", "step 12/40", "10.5 s", "slice broken", "slice train-1 is CREATING", "Priority"):
        assert word in text


def test_an_attempt_that_runs_says_for_how_long() -> None:
    job = job_resource("train-1") | {"state": "RUNNING", "hostSeconds": 7.5, "attempt": 2, "attempts": [attempt(1)]}
    assert "7.5 s" in next(line for line in drawn(job, 80).splitlines() if line.startswith(" 2 "))


def test_of_many_attempts_the_last_are_shown():
    attempts = [attempt(number) for number in range(1, 31)]
    job = job_resource("train-1") | {"attempt": 30, "attempts": attempts, "restart": "always"}
    text = drawn(job, 100)
    assert text.count("preempted ") == 2 * MOST_ATTEMPTS
    assert f"and {30 - MOST_ATTEMPTS} before these (-o wide)" in text
    assert drawn(job, 100, wide=True).count("preempted ") == 60


def test_each_attempt_has_its_logs(tpuctl, plane):
    plane.add_job("train-1", attempt=2)
    plane.streams[f"{JOBS}/train-1/logs"] = [
        {"type": "log", "offset": 1, "stream": "stdout", "time": 0.0, "text": "of the first\n", "attempt": 1}
    ]
    assert tpuctl("logs", "train-1", "--attempt", "1").stdout == "of the first\n"
    assert any("attempt=1" in path for _, path, _ in plane.requests)


def test_an_attempt_that_is_followed_by_another_is_told_of(tpuctl, plane, script):
    job = plane.add_job("train-1", attempt=2, attempts=[attempt(1), attempt(2, "succeeded")])
    plane.set(JOBS, job | {"state": "QUEUED"}, "POST")
    plane.streams[f"{JOBS}/train-1:watch"] = [
        {"type": "log", "offset": 1, "stream": "stdout", "time": 0.0, "text": "one\n", "attempt": 1},
        {"type": "job", "job": job | {"state": "QUEUED", "attempts": [attempt(1)]}},
        {"type": "log", "offset": 1, "stream": "stdout", "time": 0.0, "text": "two\n", "attempt": 2},
        {"type": "job", "job": job},
    ]
    result = tpuctl("run", "job", "--restart", "on-preemption", script)
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert "! Attempt 1 ended at step 12/40: preempted. Attempt 2 follows" in result.stderr


def test_schedules_are_made_listed_and_deleted(tpuctl, plane, script):
    row = {
        "name": "nightly",
        "uid": "1",
        "every": "30 4 * * 1",
        "command": ["echo"],
        "nextTime": "2026-12-07T04:30:00Z",
        "createTime": datetime.now(UTC).isoformat(),
        "runs": 3,
        "missed": 0,
        "skipped": 1,
        "lastJob": "nightly-20261130-043000",
        "error": "no room",
    }
    plane.set(SCHEDULES, row, "POST")
    plane.set(SCHEDULES, {"schedules": [row]})
    plane.set(f"{SCHEDULES}/nightly", {}, "DELETE")
    made = tpuctl("run", "job", "--every", "30 4 * * 1", "--name", "nightly", script)
    assert (made.exit_code, "next at 2026-12-07 04:30 UTC" in made.stderr) == (0, True)
    assert (posted(plane, SCHEDULES)["every"], posted(plane, SCHEDULES)["name"]) == ("30 4 * * 1", "nightly")
    listed = tpuctl("list", "schedules")
    assert "nightly   30 4 * * 1   2026-12-07 04:30   3      nightly-20261130-043000" in listed.stdout
    assert all(len(line) <= 80 for line in listed.stdout.splitlines())
    assert "nightly could not be started: no room" in listed.stderr
    assert json.loads(tpuctl("list", "schedules", "-o", "json").stdout)[0]["skipped"] == 1
    assert "is deleted" in tpuctl("delete", "schedule", "nightly", "--yes").stderr
    assert tpuctl("delete", "schedule", "other", "--yes").exit_code == 3


def test_a_schedule_of_an_array_says_how_many_jobs_a_run_is(tpuctl, plane, script):
    row = {"name": "sweep", "uid": "1", "every": "day", "command": ["echo"], "indices": [0, 1, 5]}
    row |= {"createTime": datetime.now(UTC).isoformat(), "nextTime": "2026-12-07T04:30:00Z"}
    row |= {"runs": 1, "missed": 0, "skipped": 0, "lastJob": "sweep-20261130-043000"}
    plane.set(SCHEDULES, row, "POST")
    plane.set(SCHEDULES, {"schedules": [row]})
    made = tpuctl("run", "job", "--array", "0,1,5", "--every", "day", "--name", "sweep", script)
    assert "Schedule sweep: every day, 3 jobs each, next at 2026-12-07 04:30 UTC" in made.stderr
    assert (posted(plane, SCHEDULES)["indices"], made.exit_code) == ([0, 1, 5], 0)
    assert "sweep-20261130-043000-*" in tpuctl("list", "schedules").stdout


def test_what_a_job_costs_is_told_and_what_has_no_price_is_said(tpuctl, plane):
    assert "$1.25 at list prices, 0.500 chip-hours" in drawn(job_resource("a") | {"chipHours": 0.5, "cost": 1.25}, 80)
    assert "no price is published, 0.500 chip-hours" in drawn(job_resource("a") | {"chipHours": 0.5}, 80)
    assert "chip-hours" not in drawn(job_resource("a"), 80)


def test_when_a_job_is_tried_again_is_told():
    later = (datetime.now(UTC) + timedelta(seconds=30.5)).isoformat()
    job = job_resource("a") | {"state": "QUEUED", "waitsFor": "attempt 1 ended: failed", "waitsUntil": later}
    assert "attempt 1 ended: failed; again in 30" in drawn(job, 80)


def test_jobs_that_have_ended_are_deleted(tpuctl, plane):
    for name, state in (("a", "SUCCEEDED"), ("b", "FAILED"), ("c", "RUNNING")):
        plane.add_job(name, state=state)
        plane.set(f"{JOBS}/{name}", {}, "DELETE")
    result = tpuctl("delete", "job", "a", "b", "a", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Job b is deleted" in result.stderr
    refused = tpuctl("delete", "job", "a", "c", "--yes")
    assert refused.exit_code != 0
    assert "job c is RUNNING; end it first: tpuctl cancel job c" in refused.stderr
    deleted = [path for method, path, _ in plane.requests if method == "DELETE"]
    assert deleted == [f"{JOBS}/a", f"{JOBS}/b"]
