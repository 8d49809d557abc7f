"""create, delete and cancel: what they ask for, and that data and talk keep to their streams."""

from __future__ import annotations

import json

import pytest

from tests.tpuctl.cli.conftest import error_body

NODES = "/v2/projects/local/locations/europe-west4-a/nodes"
OPERATION = "projects/local/locations/europe-west4-a/operations/operation-1"


@pytest.fixture(autouse=True)
def operations(plane):
    running = {"name": OPERATION, "done": False}
    plane.set(NODES, running, "POST")
    plane.set(f"{NODES}/demo", running, "DELETE")
    plane.set(f"/v2/{OPERATION}", running | {"done": True})
    plane.add_node("demo")
    plane.set("/tpuctl/v1/projects/local/jobs", {"jobs": []})


def bodies(plane, method):
    return [(path, body) for verb, path, body in plane.requests if verb == method]


def test_create_slice_asks_for_a_node_and_waits(tpuctl, plane):
    result = tpuctl("create", "slice", "demo", "--type", "v3-8")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Slice demo (v3-8) is READY" in result.stderr
    [(path, body)] = bodies(plane, "POST")
    assert path == f"{NODES}?nodeId=demo"
    assert body["acceleratorType"] == "v3-8"
    assert ("GET", f"/v2/{OPERATION}") in {request[:2] for request in plane.requests}


def test_create_device_is_a_slice_of_one_host(tpuctl, plane):
    assert tpuctl("create", "device", "demo", "--type", "v2").exit_code == 0
    assert bodies(plane, "POST")[0][1]["acceleratorType"] == "v2-8"


def test_create_pod_is_all_chips_of_a_generation(tpuctl, plane):
    assert "Slice demo (v3-2048) is READY" in tpuctl("create", "pod", "demo", "--type", "v3").stderr
    assert bodies(plane, "POST")[0][1]["acceleratorType"] == "v3-2048"
    result = tpuctl("create", "pod", "demo", "--type", "v33")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "v33" in result.stderr


def test_slices_are_joined_when_asked_for(tpuctl, plane):
    assert "Slice demo (2 x v3-8) is READY" in tpuctl("create", "slice", "demo", "-t", "v3-8", "--slices", "2").stderr
    assert bodies(plane, "POST")[0][0] == f"{NODES}?nodeId=demo&numSlices=2"
    assert tpuctl("create", "slice", "demo", "-t", "v3-8", "--slices", "0").exit_code == 2


def test_no_wait_returns_at_once(tpuctl, plane):
    result = tpuctl("create", "slice", "demo", "--type", "v3-8", "--no-wait")
    assert "is being created" in result.stderr
    assert ("GET", f"/v2/{OPERATION}") not in {request[:2] for request in plane.requests}


def test_create_prints_the_node_when_asked_for_json(tpuctl):
    result = tpuctl("create", "slice", "demo", "--type", "v3-8", "-o", "json")
    assert json.loads(result.stdout)["state"] == "READY"


def test_zone_goes_into_the_path(tpuctl, plane):
    path = "/v2/projects/local/locations/us-central1-a/nodes"
    plane.set(path, {"name": OPERATION, "done": True}, "POST")
    assert tpuctl("create", "slice", "demo", "--type", "v3-8", "--zone", "us-central1-a").exit_code == 0
    assert bodies(plane, "POST")[0][0].startswith(path)


def test_a_type_that_the_default_zone_does_not_offer_goes_where_it_is(tpuctl, plane, monkeypatch):
    path = "/v2/projects/local/locations/us-central2-b/nodes"
    plane.set(path, {"name": OPERATION, "done": True}, "POST")
    result = tpuctl("create", "slice", "demo", "--type", "v4-8")
    assert "In zone us-central2-b: europe-west4-a has no v4-8" in result.stderr
    assert bodies(plane, "POST")[0][0].startswith(path)
    monkeypatch.setenv("TPUCTL_ZONE", "europe-west4-a")
    tpuctl("create", "slice", "demo", "--type", "v4-8")
    assert bodies(plane, "POST")[1][0].startswith(NODES)


def test_delete_slice_deletes_and_waits(tpuctl, plane):
    result = tpuctl("delete", "slice", "demo", "--yes")
    assert result.exit_code == 0
    assert "Slice demo is deleted" in result.stderr
    assert bodies(plane, "DELETE") == [(f"{NODES}/demo", None)]


def test_delete_slice_says_which_job_it_has_ended(tpuctl, plane):
    plane.add_job("train-1", slice="demo", state="RUNNING", exitCode=None)
    plane.add_job("train-2", slice="other", state="RUNNING", exitCode=None)
    plane.add_job("train-3", slice="demo", zone="us-central1-a", state="RUNNING", exitCode=None)
    plane.add_job("train-4", slice="demo", state="SUCCEEDED")
    result = tpuctl("delete", "slice", "demo", "--yes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Job train-1, which was running on it, was ended" in result.stderr
    assert result.stderr.count("Job ") == 1
    assert "train-1, which was running on it, will be ended" in tpuctl("delete", "slice", "demo", "--no-wait").stderr


def test_a_failed_operation_is_an_error_with_its_own_code(tpuctl, plane):
    error = {"code": 8, "message": "There is no more capacity in the zone"}
    plane.set(f"/v2/{OPERATION}", {"name": OPERATION, "done": True, "error": error})
    result = tpuctl("create", "slice", "demo", "--type", "v3-8")
    assert result.exit_code == 5
    told, hint = result.stderr.splitlines()
    assert told == "tpuctl: There is no more capacity in the zone"
    assert hint.endswith("`tpuctl create queued-resource` waits until there is room")


def test_cancel_job_waits_for_its_end(tpuctl, plane):
    plane.add_job("train-1", state="RUNNING", exitCode=None)
    ended = plane.answers["GET /tpuctl/v1/projects/local/jobs/train-1"][1] | {"state": "CANCELLED"}
    plane.set("/tpuctl/v1/projects/local/jobs/train-1:cancel", ended, "POST")
    assert "is being cancelled" in tpuctl("cancel", "job", "train-1", "--no-wait").stderr
    plane.set("/tpuctl/v1/projects/local/jobs/train-1", ended)
    refusal = error_body(400, "FAILED_PRECONDITION", "job train-1 has already ended")
    plane.set("/tpuctl/v1/projects/local/jobs/train-1:cancel", refusal, "POST", 400)
    assert "has ended already: CANCELLED" in tpuctl("cancel", "job", "train-1").stderr
