"""Arguments and settings that no request can carry are refused in one line."""

from __future__ import annotations

import os
import re

import pytest

READ = ("list", "jobs")
WRITE = ("create", "slice", "demo", "--type", "v3-8")


@pytest.mark.parametrize("place", [2, 4])
def test_an_argument_that_is_not_text_exits_2(tpuctl, place):
    arguments = ["create", "slice", "demo", "--type", "v3-8"]
    arguments[place] = os.fsdecode(b"\xff\xfe")
    result = tpuctl(*arguments)
    assert result.exit_code == 2
    assert result.stderr == "tpuctl: the name or argument '\\xff\\xfe' is not valid UTF-8\n"


@pytest.mark.parametrize("arguments", [READ, WRITE])
@pytest.mark.parametrize("token", ["two\nlines", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_a_token_that_cannot_be_sent_exits_4(tpuctl, plane, monkeypatch, arguments, token):
    monkeypatch.setenv("TPUCTL_TOKEN", token)
    result = tpuctl(*arguments)
    assert result.exit_code == 4
    assert result.stderr.startswith("tpuctl: TPUCTL_TOKEN is not a token")
    assert plane.requests == []


@pytest.mark.parametrize("arguments", [READ, WRITE])
def test_a_project_that_cannot_be_exits_2(tpuctl, plane, monkeypatch, arguments):
    monkeypatch.setenv("TPUCTL_PROJECT", "Bad Project")
    result = tpuctl(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("tpuctl: project 'Bad Project' is not valid")


@pytest.mark.parametrize("zone", ["mars", "new mars"])
def test_a_zone_that_is_not_there_is_refused_as_that_of_the_option_is(tpuctl, plane, monkeypatch, zone):
    message = f"Location {zone} is not found or access is unauthorized."
    refusal = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": message}}
    path = f"/v2/projects/local/locations/{zone.replace(' ', '%20')}"
    plane.set(path, refusal, status=403)
    plane.set(f"{path}/nodes", refusal, status=403)
    by_option = tpuctl("list", "slices", "--zone", zone)
    monkeypatch.setenv("TPUCTL_ZONE", zone)
    by_environment = tpuctl("list", "slices")
    assert by_option == by_environment
    assert message in by_option.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe", "slice", "../../x"),
        ("describe", "job", "a/b"),
        ("attach", "Demo"),
        ("logs", ""),
        ("cancel", "job", "x?y"),
        ("delete", "slice", "demo", ".."),
        ("create", "slice", "-", "--type", "v3-8"),
        ("run", "job", "--slice", "a b", "true"),
        ("run", "job", "--name", "a b", "true"),
    ],
)
def test_a_name_that_cannot_be_exits_2_before_anything_is_asked(tpuctl, plane, arguments):
    result = tpuctl(*arguments)
    assert result.exit_code == 2
    assert re.match("tpuctl: (slice|job) name .* is not valid: use 1 to 63 lower-case letters", result.stderr)
    assert plane.requests == []
