"""tpuctl fault api: what it asks for, and how faults are listed and cleared."""

from __future__ import annotations

import json

import pytest

from tests.tpuctl.cli.conftest import error_body

FAULTS = "/tpuctl/v1/faults"
RULE = {"kind": "slow", "id": "slow-1", "name": "a*", "count": 2, "probability": 0.5, "seed": 3, "seconds": 9.0}
RULE |= {"seen": 4, "struck": 1}


def test_a_fault_is_added_with_what_was_said_and_how_to_end_it(tpuctl, plane):
    plane.set(FAULTS, RULE, "POST")
    arguments = ["--name", "a*", "--count", "2", "--probability", "0.5", "--seed", "3", "--seconds", "9"]
    result = tpuctl("fault", "api", "slow", *arguments)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Fault slow-1: 50% (seed 3), 2 at most" in result.stderr
    assert "tpuctl fault api clear slow-1" in result.stderr
    [body] = [body for verb, _, body in plane.requests if verb == "POST"]
    wanted = {"kind": "slow", "name": "a*", "count": 2, "probability": 0.5, "seed": 3, "seconds": 9.0}
    assert {name: body[name] for name in wanted} == wanted
    assert "method" not in body


@pytest.mark.parametrize(
    "arguments", [["slow", "--probability", "2"], ["slow", "--limit", "2"], ["rain"], ["preempt", "--count", "0"]]
)
def test_what_means_nothing_to_a_kind_is_refused(tpuctl, plane, arguments):
    assert tpuctl("fault", "api", *arguments).exit_code == 2
    assert plane.requests == []


def test_faults_are_listed_with_how_often_they_struck(tpuctl, plane):
    plane.set(FAULTS, {"faults": []})
    assert "The API has no faults" in tpuctl("fault", "api", "list").stderr
    plane.set(FAULTS, {"faults": [RULE]})
    row = tpuctl("fault", "api", "list").stdout.splitlines()[1].split()
    assert row == ["slow-1", "a*", "50%", "(seed", "3),", "2", "at", "most", "seconds=9", "4", "1"]
    assert tpuctl("fault", "api", "list", "-o", "name").stdout == "slow-1\n"
    assert json.loads(tpuctl("fault", "api", "list", "-o", "json").stdout)[0]["name"] == "a*"


def test_one_fault_or_all_are_cleared(tpuctl, plane):
    plane.set(f"{FAULTS}/slow-1", {}, "DELETE")
    plane.set(FAULTS, {}, "DELETE")
    assert "Fault slow-1 has ended" in tpuctl("fault", "api", "clear", "slow-1").stderr
    assert "The API has no faults" in tpuctl("fault", "api", "clear").stderr
    plane.set(f"{FAULTS}/x", error_body(404, "NOT_FOUND", "there is no fault 'x'"), "DELETE", 404)
    result = tpuctl("fault", "api", "clear", "x")
    assert result.exit_code == 3
    assert "there is no fault 'x'" in result.stderr
