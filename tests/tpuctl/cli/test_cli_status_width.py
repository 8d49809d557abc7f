"""A status that fits the terminal: columns are left out before any is cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.tpuctl.cli.conftest import job_resource
from tpuctl.cli.list import JOB_COLUMNS
from tpuctl.cli.output import fitting
from tpuctl.cli.status_view import status_view

JOB = {"name": "mnist-v3-32-d1f2e", "slice": "mnist-v3-32-d1f2e", "state": "SUCCEEDED", "hostSeconds": 45.5}
METRICS = {"epoch": 1, "epochs": 2, "loss": 2.1234, "accuracy": 0.2259}


def shown(width: int, jobs: list[dict[str, object]]) -> str:
    status = {"version": "0", "url": "u", "uptimeSeconds": 1.0, "pid": 1, "project": "p", "home": "/h"}
    console = Console(file=io.StringIO(), width=width)
    console.print(status_view(status | {"slices": [], "jobs": jobs}, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [90, 110, 125, 160])
def test_no_cell_is_cut(width: int) -> None:
    text = shown(width, [JOB | {"metrics": METRICS}])
    assert "…" not in text
    assert "SUCCEEDED" in text
    assert "DEVICE STEP" in text


def test_what_a_wide_terminal_has_room_for_is_all_there() -> None:
    wide, narrow = shown(160, [JOB | {"metrics": METRICS}]), shown(110, [JOB | {"metrics": METRICS}])
    assert "ACCURACY" in wide
    assert "SLICE" in wide
    assert len(narrow.splitlines()) == len(wide.splitlines())
    assert "ACCURACY" in shown(110, [JOB | {"name": "a", "slice": "b", "metrics": METRICS}])


def test_long_names_leave_out_columns_before_any_cell_is_cut() -> None:
    long = JOB | {"name": "nightly-sweep-20261201-164633-0", "metrics": METRICS}
    text = shown(80, [long])
    assert "…" not in text
    assert all(word in text for word in ("nightly-sweep-20261201-164633-0", "SUCCEEDED", "epoch 1/2", "45.5 s"))
    assert "DEVICE STEP" not in text


def test_the_control_plane_is_told_in_one_line_or_two_that_end_between_facts() -> None:
    assert len(shown(80, []).split("No slices")[0].strip().splitlines()) == 1
    status = {"version": "0.1.0", "url": "http://127.0.0.1:40279", "uptimeSeconds": 34.5, "pid": 1, "project": "local"}
    console = Console(file=io.StringIO(), width=80)
    console.print(status_view(status | {"home": "/home/ada/.local/share/tpuctl", "slices": [], "jobs": []}, 80))
    assert isinstance(console.file, io.StringIO)
    first, second = console.file.getvalue().splitlines()[:2]
    assert first.endswith("up 34.5 s")
    assert second == "  pid 1, project local, /home/ada/.local/share/tpuctl"


def test_a_list_in_a_narrow_terminal_leaves_out_what_can_be_spared_and_a_pipe_nothing() -> None:
    job = job_resource("nightly-sweep-20261201-164633-0")
    columns = [column for column in JOB_COLUMNS if not column.wide]
    found = {room: [one.heading for one in fitting([job], columns, room)] for room in (120, 80, 20, None)}
    assert found[120] == found[None] == [column.heading for column in columns]
    assert found[80] == [heading for heading in found[None] if heading != "SLICE"]
    assert found[20] == ["NAME", "STATE", "EXIT", "TYPE"]


def test_a_status_says_why_jobs_wait_and_how_many_more_do() -> None:
    alike = [
        JOB | {"name": f"j{number}", "state": "QUEUED", "waitsFor": "v4-512 needs 256 chips"} for number in range(5)
    ]
    text = shown(80, alike)
    assert "j0, j1, j2 and 2 more wait: v4-512 needs 256 chips" in text
    others = [JOB | {"name": f"k{number}", "state": "QUEUED", "waitsFor": f"reason {number}"} for number in range(7)]
    assert "and 3 more: tpuctl describe job NAME" in shown(80, [*alike, *others])
