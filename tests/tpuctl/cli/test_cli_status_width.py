"""A status that fits the terminal: columns are left out before any is cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

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


def test_a_status_says_why_jobs_wait_and_how_many_more_do() -> None:
    alike = [
        JOB | {"name": f"j{number}", "state": "QUEUED", "waitsFor": "v4-512 needs 256 chips"} for number in range(5)
    ]
    text = shown(80, alike)
    assert "j0, j1, j2 and 2 more wait: v4-512 needs 256 chips" in text
    others = [JOB | {"name": f"k{number}", "state": "QUEUED", "waitsFor": f"reason {number}"} for number in range(7)]
    assert "and 3 more: tpuctl describe job NAME" in shown(80, [*alike, *others])
