"""list, describe, status and attach: what they read and how it comes out."""

from __future__ import annotations

import json

import pytest
import yaml


@pytest.fixture(autouse=True)
def resources(plane):
    plane.add_node("demo")
    plane.add_node("other", state="CREATING", networkEndpoints=[])
    plane.add_job("mnist-abc12")
    plane.set(
        "/tpuctl/v1/status",
        {
            "version": "0.1.0",
            "pid": 1,
            "uptimeSeconds": 65,
            "url": plane.url,
            "home": str(plane.home),
            "project": "local",
            "slices": [plane.answers["GET /tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo"][1]],
            "jobs": plane.answers["GET /tpuctl/v1/projects/local/jobs"][1]["jobs"],
        },
    )
    types = [
        {"name": f"projects/local/locations/europe-west4-a/acceleratorTypes/{t}", "type": t} for t in ("v2-8", "v3-8")
    ]
    plane.set("/v2/projects/local/locations/-/acceleratorTypes", {"acceleratorTypes": types})


def test_list_slices_is_a_table_of_one_row_a_slice(tpuctl):
    result = tpuctl("list", "slices")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == ["NAME", "ZONE", "TYPE", "STATE", "HEALTH", "ENDPOINT", "AGE"]
    assert lines[1].split() == ["demo", "europe-west4-a", "v3-8", "READY", "HEALTHY", "127.84.0.1:8470", "0s"]
    assert lines[2].split()[3:6] == ["CREATING", "HEALTHY", "-"]


def test_wide_tables_have_more_columns(tpuctl):
    assert "tpu-ubuntu2204-base" in tpuctl("list", "slices", "-o", "wide").stdout
    assert "python train.py" in tpuctl("list", "jobs", "-o", "wide").stdout


def test_a_piped_table_has_no_colour_and_no_cut_rows(tpuctl):
    result = tpuctl("list", "jobs", "-o", "wide")
    assert "\x1b" not in result.stdout
    assert "…" not in result.stdout


def test_json_and_yaml_are_the_api_s_own_resources(tpuctl, plane):
    node = plane.answers["GET /v2/projects/local/locations/europe-west4-a/nodes/demo"][1]
    assert json.loads(tpuctl("list", "slices", "-o", "json").stdout)[0] == node
    assert yaml.safe_load(tpuctl("list", "slices", "-o", "yaml").stdout)[0] == node


def test_names_are_one_a_line(tpuctl):
    assert tpuctl("list", "slices", "-o", "name").stdout == "demo\nother\n"
    assert tpuctl("list", "types", "-o", "name").stdout == "v2-8\nv3-8\n"


def test_types_come_with_the_size_of_their_slice(tpuctl):
    row = tpuctl("list", "types").stdout.splitlines()[2]
    assert row.split() == ["v3-8", "2x2", "4", "8", "1", "128", "GiB", "-", "492"]


def test_an_empty_list_says_on_stderr_how_to_make_one(tpuctl, plane):
    plane.set("/v2/projects/local/locations/-/nodes", {})
    result = tpuctl("list", "slices")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "tpuctl create slice" in result.stderr
    assert json.loads(tpuctl("list", "slices", "-o", "json").stdout) == []


def test_describe_slice_draws_its_chips_and_hbm(tpuctl):
    text = tpuctl("describe", "slice", "demo").stdout
    assert "127.84.0.1:8470" in text
    assert "32 GiB of 128 GiB" in text
    assert all(f"chip {x},{y}" in text for x in (0, 1) for y in (0, 1))
    assert all(f"core {core}" in text for core in range(8))
    assert text.count("4 GiB of 16 GiB") == 8


def test_describe_slice_keeps_secrets_to_itself(tpuctl):
    found = json.loads(tpuctl("describe", "slice", "demo", "-o", "json").stdout)
    assert found["endpoint"] == "127.84.0.1:8470"
    assert not {"environment", "environmentTcp"} & found.keys()


def test_describe_job_shows_progress_metrics_and_artifacts(tpuctl):
    text = tpuctl("describe", "job", "mnist-abc12").stdout
    assert "epoch 2/2, step 15/15" in text
    assert "200 ms" in text  # 0.6 s over 3 steps
    assert "1 ms" in text  # 0.03 s of device time over 30 steps
    assert "curves.png" in text
    assert "⠀" in text or any("\u2800" <= letter <= "\u28ff" for letter in text)


def test_status_shows_everything_and_says_what_is_simulated(tpuctl):
    text = tpuctl("status").stdout
    for part in ("Control plane", "1m05s", "demo", "32 GiB of 128 GiB", "12.5%", "mnist-abc12", "0.2500", "96.00%"):
        assert part in text
    assert "simulated" in text


def test_status_json_is_what_the_control_plane_says(tpuctl, plane):
    assert json.loads(tpuctl("status", "-o", "json").stdout) == plane.answers["GET /tpuctl/v1/status"][1]


def test_attach_prints_exports_that_a_shell_can_read(tpuctl):
    assert tpuctl("attach", "demo").stdout.splitlines() == [
        "export TPUCTL_SLICE=unix:///home/me/slices/1/link.sock",
        "export TPU_NAME='it'\"'\"'s'",
    ]
    assert "export TPUCTL_SLICE_TOKEN=secret" in tpuctl("attach", "demo", "--tcp").stdout


def test_attach_speaks_fish(tpuctl, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert tpuctl("attach", "demo", "--tcp").stdout.splitlines()[1] == "set -gx TPUCTL_SLICE_TOKEN 'secret';"


def test_without_slices_in_a_zone_the_hint_has_the_zone(tpuctl, plane):
    for zone in ("us-central1-a", "-"):
        plane.set(f"/v2/projects/local/locations/{zone}/nodes", {"nodes": []})
    hint = "Create one: tpuctl create slice NAME --type v3-8"
    assert tpuctl("list", "slices").stderr == f"No slices. {hint}\n"
    assert tpuctl("list", "slices", "--zone", "us-central1-a").stderr == (
        f"No slices in us-central1-a. {hint} --zone us-central1-a\n"
    )
