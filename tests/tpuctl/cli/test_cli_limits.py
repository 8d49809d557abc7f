"""Quotas, and how slices are come by: what is asked for, and what is shown of them."""

from __future__ import annotations

import json

import pytest

QUOTAS = "/tpuctl/v1/quotas"
OF_PROJECT = "/tpuctl/v1/projects/local/quotas"
REQUESTS = "/tpuctl/v1/projects/local/quotaRequests"
SLICES = {"project": "local", "location": "us-central2", "generation": "v4", "kind": "spot", "method": "", "limit": 64}
CALLS = {"project": "local", "location": "*", "generation": "", "kind": "on-demand", "method": "nodes.create"}


def posted(plane, path):
    [body] = [body for method, asked, body in plane.requests if (method, asked.partition("?")[0]) == ("POST", path)]
    return body


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (
            "64 -g v4 -l us-central2-b --kind spot --chips",
            {"generation": "v4", "location": "us-central2-b", "kind": "spot", "unit": "chips", "limit": 64},
            "Project local may have 64 spot chips of v4 in us-central2-b",
        ),
        ("32 -g v3", {"generation": "v3", "location": "*", "unit": "cores"}, "32 on-demand cores of v3 in any region"),
        ("9 --method nodes.create", {"method": "nodes.create", "limit": 9}, "9 calls a minute of nodes.create"),
        ("90 --method *", {"method": "*", "limit": 90}, "Project local may have 90 calls a minute\n"),
    ],
)
def test_a_limit_is_of_slices_or_of_calls(tpuctl, plane, words, asked, said):
    plane.set(QUOTAS, {"quotas": []}, "POST")
    result = tpuctl("quota", "set", *words.split())
    assert result.exit_code == 0, result.stderr
    assert said in result.stderr
    assert posted(plane, QUOTAS).items() >= asked.items()


@pytest.mark.parametrize("verb", ["set", "request"])
@pytest.mark.parametrize("words", ["9", "9 -g v4 --method nodes.create"])
def test_what_a_limit_is_of_must_be_said_once(tpuctl, plane, verb, words):
    result = tpuctl("quota", verb, *words.split())
    assert result.exit_code == 2
    assert "give either --generation or --method" in result.stderr
    assert not [method for method, *_ in plane.requests if method == "POST"]


def test_limits_are_listed_with_what_is_in_use(tpuctl, plane):
    rows = [SLICES | {"unit": "cores", "inUse": 48}, CALLS | {"unit": "requests a minute", "limit": 60, "inUse": 3}]
    plane.set(OF_PROJECT, {"quotas": rows})
    plane.set(REQUESTS, {"requests": [CALLS | {"id": "q1", "state": "PENDING", "limit": 90, "unit": "cores"}]})
    lines = tpuctl("quota", "list").stdout.splitlines()
    assert lines[0].split() == ["PROJECT", "OF", "WHERE", "IN", "USE", "LIMIT"]
    assert lines[1].startswith("local     v4 spot        us-central2 ")
    assert lines[1].endswith("48   64 cores")
    assert lines[2].endswith("3    60 requests a minute")
    assert lines[4].split()[:2] == ["REQUEST", "STATE"]
    names = tpuctl("quota", "list", "-o", "name").stdout.split()
    assert names == ["local/us-central2/v4/spot", "local/nodes.create"]
    assert json.loads(tpuctl("quota", "list", "-o", "json").stdout)["quotas"][0]["inUse"] == 48


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ("--spot", {"schedulingConfig": {"spot": True}}),
        ("--reserved", {"schedulingConfig": {"reserved": True}}),
        ("--reservation r", {"schedulingConfig": {"reserved": True, "reservationName": "r"}}),
        ("--contiguous", {"labels": {"tpuctl-contiguous": "true"}}),
    ],
)
def test_a_slice_says_how_it_is_come_by(tpuctl, plane, words, spec):
    operation = {"name": "projects/local/locations/us-central2-b/operations/o", "done": True}
    plane.set("/v2/projects/local/locations/us-central2-b/nodes", operation, "POST")
    result = tpuctl("create", "slice", "a", "--type", "v4-256", *words.split(), "--no-wait")
    assert result.exit_code == 0, result.stderr
    assert posted(plane, "/v2/projects/local/locations/us-central2-b/nodes").items() >= spec.items()


def test_a_spot_slice_is_of_no_reservation(tpuctl, plane):
    result = tpuctl("create", "slice", "a", "--type", "v4-256", "--spot", "--reserved")
    assert result.exit_code == 2
    assert "give only one of --spot, --reserved and --reservation" in result.stderr


def test_a_reservation_is_deleted_where_it_is(tpuctl, plane):
    row = {"name": "r", "project": "local", "zone": "us-central2-b", "generation": "v4", "chips": 8, "inUse": 0}
    plane.set(
        "/tpuctl/v1/projects/local/reservations", {"reservations": [row, row | {"project": "other", "zone": "x"}]}
    )
    path = "/tpuctl/v1/projects/local/locations/us-central2-b/reservations/r"
    plane.set(path, {}, "DELETE")
    result = tpuctl("delete", "reservation", "r", "--yes")
    assert result.exit_code == 0, result.stderr
    assert plane.requests[-1][:2] == ("DELETE", path)
