"""Bad input and bad luck: one or two lines that say what to do, and the documented exit code."""

from __future__ import annotations

import errno

import pytest

from tpuctl.api import errors
from tpuctl.cli import entry
from tpuctl.cli.problems import did_you_mean


def lines(result):
    return result.stderr.rstrip("\n").splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "no such command 'frobnicate'"),
        (["create", "slice", "demo"], "give --type, or --generation with --topology"),
        (["create", "device", "demo", "--type", "v9"], "'v9' is not one of 'v2', 'v3'"),
        (["list", "slices", "--frob"], "no such option: --frob"),
        (["list", "slices", "-o", "xml"], "'xml' is not one of"),
    ],
)
def test_usage_errors_exit_2_and_name_the_help(tpuctl, arguments, message):
    result = tpuctl(*arguments)
    assert result.exit_code == 2
    assert message in lines(result)[0]
    assert "--help" in lines(result)[1]
    assert len(lines(result)) == 2


def test_a_missing_slice_exits_3_and_the_nearest_is_suggested(tpuctl, plane):
    plane.add_node("demo")
    result = tpuctl("describe", "slice", "deno")
    assert result.exit_code == 3
    assert lines(result) == ["tpuctl: slice 'deno' was not found in europe-west4-a", "  did you mean 'demo'?"]


def test_a_missing_job_exits_3_and_says_how_to_list_them(tpuctl, plane):
    result = tpuctl("describe", "job", "zebra")
    assert result.exit_code == 3
    assert lines(result) == ["tpuctl: job 'zebra' was not found", "  `tpuctl list jobs` shows those there are"]


def test_a_slice_in_another_zone_is_pointed_to(tpuctl, plane):
    plane.add_node("demo", name="projects/local/locations/us-central1-a/nodes/demo")
    plane.answers.pop("GET /tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo")
    assert lines(tpuctl("describe", "slice", "demo"))[1] == "  there is one in us-central1-a: pass --zone us-central1-a"


def test_a_taken_name_says_which_and_what_to_do(tpuctl, plane):
    taken = errors.AlreadyExists.of("projects/local/locations/europe-west4-a/nodes/demo")
    plane.set("/v2/projects/local/locations/europe-west4-a/nodes", taken.to_body(), "POST", 409)
    result = tpuctl("create", "slice", "demo", "--type", "v3-8")
    assert result.exit_code == 1
    assert lines(result) == [
        "tpuctl: slice 'demo' already exists in europe-west4-a",
        "  choose another name, or delete it: tpuctl delete slice demo",
    ]


@pytest.mark.parametrize("arguments", [["list", "slices"], ["create", "slice", "demo", "--type", "v3-8"]])
def test_a_wrong_token_exits_4(tpuctl, plane, monkeypatch, arguments):
    monkeypatch.setenv("TPUCTL_TOKEN", "wrong")
    result = tpuctl(*arguments)
    assert result.exit_code == 4
    assert "token" in result.stderr
    assert len(lines(result)) <= 2


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.InvalidArgument("bad"), 2),
        (errors.PermissionDenied("no"), 4),
        (errors.ResourceExhausted("full"), 5),
        (errors.FailedPrecondition("busy"), 1),
        (errors.AlreadyExists("taken"), 1),
        (errors.Unavailable("gone"), 1),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
    ],
)
def test_exit_codes_follow_the_kind_of_error(error, exit_code):
    failure = entry.explain(error)
    assert failure.exit_code == exit_code
    assert str(error) in failure.message


def test_a_full_disk_says_so():
    assert entry.explain(OSError(errno.ENOSPC, "No space left on device")).message.startswith("the disk is full")


def test_what_nobody_expected_is_one_line_and_a_way_to_see_more():
    failure = entry.explain(ZeroDivisionError("division by zero"))
    assert failure.message == "unexpected ZeroDivisionError: division by zero"
    assert "TPUCTL_DEBUG=1" in failure.hint


def test_suggestions_are_only_of_near_names():
    assert did_you_mean("mnits", ["mnist", "bert"]) == "did you mean 'mnist'?"
    assert did_you_mean("zebra", ["mnist"]) == ""


def test_no_arguments_shows_the_help(tpuctl):
    result = tpuctl()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr
