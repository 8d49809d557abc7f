"""Jobs of several workers: how they are asked for, and how what they write is told apart."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest

from tpuctl.api.jobs import LogRecord
from tpuctl.cli.problems import Problem
from tpuctl.cli.worker_output import WorkerOutput, chosen

JOBS = "/tpuctl/v1/projects/local/jobs"


def log(worker, offset, text, stream="stdout"):
    return {"type": "log", "worker": worker, "offset": offset, "stream": stream, "time": 0.0, "text": text}


@pytest.fixture
def pair(plane, tmp_path, monkeypatch):
    """A job of two workers that every POST makes."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    workers = [
        {"index": index, "name": f"t1v-n-1-w-{index}", "ipAddress": f"127.84.0.{index + 1}", "state": state, "hosts": 2}
        for index, state in enumerate(("SUCCEEDED", "FAILED"))
    ]
    job = plane.add_job("pair", hosts=4, processes=2, workers=workers, acceleratorType="v3-32")
    plane.set(JOBS, job | {"state": "QUEUED", "exitCode": None}, "POST")
    events = [
        log(0, 5, "begun\nha"),
        log(1, 4, "one\n"),
        log(0, 9, "lf\n"),
        log(1, 7, "oh\n", "stderr"),
        log(1, 9, "end"),
    ]
    plane.streams[f"{JOBS}/pair:watch"] = [*events, {"type": "job", "job": job}]
    plane.streams[f"{JOBS}/pair/logs"] = events
    return job


def body_of(plane):
    [body] = [body for method, path, body in plane.requests if (method, path) == ("POST", JOBS)]
    return body


def test_lines_of_several_workers_begin_with_who_wrote_them(tpuctl, pair):
    result = tpuctl("run", "job", "--type", "v3-32", "train.py")
    assert result.stdout == "[worker 0] begun\n[worker 1] one\n[worker 0] half\n[worker 1] end\n"
    assert "[worker 1] oh\n" in result.stderr
    assert "4 hosts, 2 processes: 2 hosts each" in result.stderr


def test_shares_and_workers_are_asked_for(tpuctl, plane, pair):
    tpuctl("run", "job", "--type", "v3-32", "--slices", "3", "--processes", "2", "--worker", "0-1", "train.py")
    body = body_of(plane)
    assert (body["processes"], body["workers"], body["numSlices"]) == (2, [0, 1], 3)


def test_what_is_not_said_is_left_to_the_control_plane(tpuctl, plane, pair):
    tpuctl("run", "job", "--worker", "all", "train.py")
    assert not {"processes", "workers"} & body_of(plane).keys()


def test_a_job_of_one_worker_is_passed_on_as_it_is(tpuctl, plane, pair):
    plane.set(JOBS, pair | {"workers": pair["workers"][:1]}, "POST")
    plane.streams[f"{JOBS}/pair:watch"] = [log(0, 5, "begun\nha"), {"type": "job", "job": pair}]
    assert tpuctl("run", "job", "train.py").stdout == "begun\nha"


def test_a_watch_goes_on_where_each_worker_was(tpuctl, plane, pair, monkeypatch):
    from tpuctl.cli import plane as way

    plane.streams[f"{JOBS}/pair:watch"].insert(3, {"type": "cut"})
    plane.set(f"{JOBS}/pair", pair | {"state": "RUNNING", "exitCode": None})
    connect = way.connect

    def reconnect():
        plane.set(f"{JOBS}/pair", pair)
        return connect()

    monkeypatch.setattr("tpuctl.cli.follow.connect", reconnect)
    printed = tpuctl("run", "job", "train.py").stdout
    assert printed == "[worker 0] begun\n[worker 1] one\n[worker 0] half\n[worker 1] end\n"
    watched = [path.partition("offset=")[2] for _, path, _ in plane.requests if ":watch" in path]
    assert watched == ["0%2C0", "9%2C4"]


@pytest.mark.parametrize(
    ("worker", "printed"),
    [
        ("all", "[worker 0] begun\n[worker 1] one\n[worker 0] half\n[worker 1] end\n"),
        ("0,1", "[worker 0] begun\n[worker 1] one\n[worker 0] half\n[worker 1] end\n"),
        ("0", "begun\nhalf\n"),
        ("1", "one\nend"),
    ],
)
def test_logs_are_those_of_the_workers_asked_for(tpuctl, pair, worker, printed):
    assert tpuctl("logs", "pair", "--worker", worker).stdout == printed


@pytest.mark.parametrize(
    ("worker", "message"),
    [("2", "job pair has no worker 2"), ("x", "--worker x: 'x' is no worker"), ("3-1", "'3-1' is no worker"), ("", "")],
)
def test_workers_that_are_not_there_are_refused(tpuctl, pair, worker, message):
    result = tpuctl("logs", "pair", "--worker", worker)
    assert result.exit_code == 2
    assert message in result.stderr


def test_describe_job_shows_each_worker(tpuctl, plane, pair):
    plane.set(f"{JOBS}/pair", pair | {"failedWorker": 1, "trouble": "worker 1 is late"})
    shown = tpuctl("describe", "job", "pair").stdout
    assert re.search(r"Processes +2, for 4 hosts", shown)
    assert re.search(r"Trouble +worker 1 is late", shown)
    assert re.search(r"1 +FAILED  at fault +- +- +t1v-n-1-w-1 +127.84.0.2 +2-3", shown)


def test_describe_slice_names_its_workers(tpuctl, plane):
    plane.add_node("demo")
    path = "/tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo"
    detail = plane.answers[f"GET {path}"][1]
    workers = [{"index": index, "name": f"w-{index}", "ipAddress": f"127.84.0.{index}"} for index in range(256)]
    cores = [
        {"id": index, "hbmBytesInUse": index << 20, "hbmBytesLimit": 1 << 34, "hbmBytesPeak": 0}
        for index in range(2048)
    ]
    plane.set(
        path, detail | {"type": "v3-2048", "topology": "32x32", "hosts": 256, "workers": workers, "perCore": cores}
    )
    shown = tpuctl("describe", "slice", "demo").stdout
    assert "w-255  127.84.0.255" in shown
    assert "253 more (-o wide)" in shown
    assert "w-100 " in tpuctl("describe", "slice", "demo", "-o", "wide").stdout
    assert "HBM in use: 0 B to 2.0 GiB of 16 GiB a device, the median 1023 MiB" in shown
    assert len(re.findall(r"(?m)^[·▁ ]{60,}$", shown)) == 32


def test_planes_of_a_pod_are_no_wider_than_a_terminal_in_a_pipe(tpuctl, plane):
    plane.add_node("demo")
    path = "/tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo"
    plane.set(path, plane.answers[f"GET {path}"][1] | {"type": "v4-8192", "topology": "16x16x16", "perCore": []})
    lines = tpuctl("describe", "slice", "demo").stdout.splitlines()
    planes = [re.findall(r"z = (\d+)", line) for line in lines if "z = " in line]
    assert [int(z) for row in planes for z in row] == list(range(16))
    assert {len(row) for row in planes} == {2}
    assert max(len(line.rstrip()) for line in lines if "·" in line) <= 100


def test_joined_slices_are_told_as_so_many_of_a_type(tpuctl, plane, pair):
    ends = [{"ipAddress": f"127.84.0.{host}", "port": 8470} for host in range(12)]
    plane.add_node("demo", acceleratorType="v3-32", multisliceNode=True, networkEndpoints=ends)
    assert " 3 x v3-32 " in tpuctl("list", "slices").stdout
    plane.add_job("joined", numSlices=3, acceleratorType="v3-32", topology="4x4")
    assert " 3 x v3-32 " in tpuctl("list", "jobs").stdout
    assert re.search(r"Slice +joined  3 x v3-32  4x4", tpuctl("describe", "job", "joined").stdout)


def test_attach_asks_for_the_environment_of_one_worker(tpuctl, plane):
    plane.add_node("demo")
    assert tpuctl("attach", "demo", "--worker", "1", "--processes", "2").exit_code == 0
    assert tpuctl("attach", "demo", "--worker", "1").exit_code == 0
    assert tpuctl("attach", "demo").exit_code == 0
    asked = [path.rpartition("/")[2] for _, path, _ in plane.requests if "/slices/" in path]
    assert asked == ["demo?worker=1&processes=2", "demo?worker=1&processes=0", "demo"]


def test_colours_are_for_terminals_only(monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    record = LogRecord(worker=1, offset=1, stream="stdout", time=0.0, text="a\n")
    assert WorkerOutput(several=True, stdout=Terminal()).take(record) == "\x1b[33m[worker 1]\x1b[0m a\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert WorkerOutput(several=True, stdout=Terminal()).take(record) == "[worker 1] a\n"


@pytest.mark.parametrize(
    ("text", "found"), [("all", None), (None, None), ("2", [2]), ("0,2", [0, 2]), ("1-3", [1, 2, 3])]
)
def test_workers_are_chosen_as_gcloud_does(text, found):
    assert chosen(text) == found


@pytest.mark.parametrize("text", ["-1", "1-", "a", "1,,2", "99999999999999"])
def test_what_is_no_worker_is_refused(text):
    with pytest.raises(Problem):
        chosen(text)
