"""up, down, version and --watch."""

from __future__ import annotations

import json

import pytest

from tpuctl import __version__
from tpuctl.cli import watch


def test_up_says_where_the_running_control_plane_is(tpuctl, plane):
    result = tpuctl("up")
    assert (result.exit_code, result.stdout) == (0, "")
    assert plane.url in result.stderr


def test_down_without_a_control_plane_is_no_error(tpuctl):
    result = tpuctl("down")
    assert result.exit_code == 0
    assert result.stderr == "No control plane is running\n"


def test_down_says_what_lives_on_and_how_to_end_it(tpuctl, plane, monkeypatch):
    plane.add_node("a")
    plane.add_node("b")
    plane.add_node("c", name="projects/local/locations/us-central1-a/nodes/c")
    plane.add_job("train-1", state="RUNNING", exitCode=None)
    plane.add_job("train-2")
    monkeypatch.setattr("tpuctl.client.stop", lambda: True)
    result = tpuctl("down")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[1:] == [
        "1 job lives on. Cancel it: tpuctl cancel job train-1",
        "3 slices live on. Delete them: tpuctl delete slice --zone europe-west4-a a b; "
        "tpuctl delete slice --zone us-central1-a c",
    ]


def test_down_with_nothing_left_is_one_line(tpuctl, plane, monkeypatch):
    plane.set("/v2/projects/local/locations/-/nodes", {"nodes": []})
    plane.set("/tpuctl/v1/projects/local/jobs", {"jobs": []})
    monkeypatch.setattr("tpuctl.client.stop", lambda: True)
    assert len(tpuctl("down").stderr.splitlines()) == 1


def test_down_works_where_what_lives_on_cannot_be_asked(tpuctl, plane, monkeypatch):
    monkeypatch.setattr("tpuctl.client.stop", lambda: True)
    result = tpuctl("down")
    assert result.exit_code == 0
    assert "What lives on is not known" in result.stderr


def test_version_in_every_form(tpuctl):
    assert tpuctl("--version").stdout == tpuctl("version").stdout == f"tpuctl {__version__}\n"
    assert json.loads(tpuctl("version", "-o", "json").stdout)["version"] == __version__
    assert "jax " in tpuctl("version", "-o", "wide").stdout


def test_watch_shows_again_until_ctrl_c(monkeypatch):
    shown, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", pause)
    watch.repeat(lambda: shown.append(1), watch=True)
    assert len(shown) == 3


def test_without_watch_it_is_shown_once():
    shown = []
    watch.repeat(lambda: shown.append(1), watch=False)
    assert shown == [1]


@pytest.mark.parametrize("verb", ["create", "delete", "list", "describe", "run", "cancel"])
def test_every_verb_has_help(tpuctl, verb):
    result = tpuctl(verb, "--help")
    assert result.exit_code == 0
    assert "Commands:" in result.stdout
