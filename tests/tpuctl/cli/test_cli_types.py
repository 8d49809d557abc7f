"""Accelerator types on the command line: listed, described, drawn, and slices made of them."""

from __future__ import annotations

import json
import re

import pytest
from rich.text import Text

from backend.hardware import ACCELERATOR_TYPES, accelerator_type, slice_of
from backend.hardware.topologies import COMMON
from tpuctl.cli.torus_picture import CHIP, HOST, torus_picture
from tpuctl.cli.type_view import bisection, other_shapes

TYPES = "/v2/projects/local/locations/-/acceleratorTypes"
OPERATION = "projects/local/locations/europe-west4-a/operations/operation-1"


@pytest.fixture(autouse=True)
def every_type(plane):
    plane.set(TYPES, {"acceleratorTypes": [{"name": f"{TYPES}/{name}", "type": name} for name in ACCELERATOR_TYPES]})


def rows(result):
    return {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}


def test_types_of_one_generation_are_all_listed(tpuctl):
    found = rows(tpuctl("list", "types", "--generation", "v4"))
    assert list(found) == [name for name in ACCELERATOR_TYPES if name.startswith("v4-")]
    assert found["v4-128"] == ["4x4x4", "64", "128", "16", "2", "TiB", "xyz", "17,600"]
    assert found["v4-256"][-3:] == ["xyz,", "twisted", "35,200"]


def test_of_large_families_the_usual_shapes_are_listed_and_the_others_told(tpuctl):
    result = tpuctl("list", "types")
    assert "v5p-8" in rows(result)
    assert "v5p-1408" not in rows(result)
    assert "more shapes: tpuctl list types --generation 7x or --generation v5p" in result.stderr
    assert "v5p-1408" in rows(tpuctl("list", "types", "-g", "v5p"))


def test_types_for_programs_are_complete(tpuctl):
    found = json.loads(tpuctl("list", "types", "-o", "json").stdout)
    assert len(found) == len(ACCELERATOR_TYPES)
    pod = next(row for row in found if row["type"] == "v3-2048")
    assert (pod["chips"], pod["hosts"], pod["devices"], pod["links"], pod["wrap"]) == (1024, 256, 2048, 2048, "xy")


def test_an_unknown_generation_is_a_usage_error(tpuctl):
    result = tpuctl("list", "types", "--generation", "v9")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there are v2, v3, v4" in result.stderr


def test_describe_type_draws_the_torus_and_gives_its_figures(tpuctl):
    result = tpuctl("describe", "type", "v3-32")
    assert result.exit_code == 0
    assert result.stdout.count(f"{CHIP}━━━{CHIP}───{CHIP}━━━{CHIP}") == 4
    for words in ("4x4  a mesh", "24 links of 200 GB/s", "europe-west4-a", "┃ 3 ┃", "16, with 32 TensorCores"):
        assert words in result.stdout
    assert "\x1b" not in result.stdout


def test_describe_type_of_another_shape(tpuctl):
    result = tpuctl("describe", "type", "v4-256", "--topology", "4x4x8_untwisted")
    assert "4x4x8_untwisted  a 3D torus" in result.stdout
    assert "4x4x8 (default)" in result.stdout


def test_a_type_that_may_be_twisted_is(tpuctl):
    result = tpuctl("describe", "type", "v4-256")
    assert "4x4x8  a 3D twisted torus" in result.stdout
    assert "twisted: a link around the end of x lands 4 further along z" in result.stdout
    assert re.search(r"Other shapes +4x4x8_untwisted", result.stdout)
    listed = tpuctl("list", "types", "-g", "v4", "-o", "json").stdout
    assert {row["topology"] for row in json.loads(listed) if row["twisted"]} == {"4x4x8", "4x8x8", "8x8x16", "8x16x16"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["v3_32"], "Did you mean v3-32?"),
        (["v4-16", "--topology", "2x4x2"], "use 2x2x4"),
    ],
)
def test_what_there_is_not_cannot_be_described(tpuctl, arguments, message):
    result = tpuctl("describe", "type", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


# Drawings


def plain(name, width=100, topology=None):
    return [line.plain for line in torus_picture(accelerator_type(name, topology), width)]


@pytest.mark.parametrize("name", ["v3-32", "v4-128", "v5litepod-8", "v6e-256", "tpu7x-64", "v2-8", "v6e-1"])
def test_a_small_slice_is_drawn_chip_by_chip(name):
    kind = accelerator_type(name)
    drawing = "\n".join(plain(name)[: -len(legend(kind))])
    assert drawing.count(CHIP) == kind.num_chips


@pytest.mark.parametrize("generation", COMMON)
def test_every_drawing_fits_the_terminal_and_a_screen_or_two(generation):
    for topology in COMMON[generation]:
        kind = slice_of(generation, topology)
        lines = torus_picture(kind, 80)
        assert max(line.cell_len for line in lines) <= 80
        assert len(lines) <= 72


def legend(kind):
    return [line for line in torus_picture(kind, 100) if isinstance(line, Text) and "link" in line.plain]


def test_links_inside_a_host_are_heavier_than_those_between_hosts():
    lines = plain("v4-32")
    assert f"{CHIP}━━━{CHIP}" in lines[2]
    assert "───" not in "".join(lines[:5])


def test_wrap_links_are_marked_on_the_axes_that_wrap():
    cylinder, mesh = "\n".join(plain("v5litepod-128")), "\n".join(plain("v5litepod-64"))
    assert cylinder.count("↕") == 2 * 8 + 1
    assert cylinder.count("↔") == 1
    assert "↕" not in mesh


def test_a_full_pod_is_drawn_host_by_host():
    drawing = "\n".join(plain("v3-2048"))
    assert drawing.count(HOST) == 256 + 1
    assert drawing.count("↔") == 2 * 16 + 1


def test_planes_that_are_alike_are_left_out_of_a_large_drawing():
    assert "... 25 planes ..." in "\n".join(plain("v5p-17920"))


def test_bisection_counts_both_cuts_of_a_ring():
    assert bisection(accelerator_type("v5litepod-256")) == 1.6e12
    assert bisection(accelerator_type("v5litepod-64")) == 8 * 50e9


def test_other_shapes_are_those_of_as_many_chips():
    assert other_shapes(accelerator_type("v4-512")) == ["4x4x16", "4x8x8_untwisted"]


# Slices of them


def created(plane):
    return [body for method, path, body in plane.requests if method == "POST" and "/nodes" in path][-1]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--type", "v3-32"], {"acceleratorType": "v3-32"}),
        (["--type", "v5e-16"], {"acceleratorType": "v5litepod-16"}),
        (["--generation", "v4", "--topology", "4x4x8"], {"acceleratorType": "v4-256"}),
        (["-g", "v4", "--topology", "4x4x16"], {"acceleratorConfig": {"type": "V4", "topology": "4x4x16"}}),
        (
            ["--type", "v5p-256", "--topology", "4x4x8_untwisted"],
            {"acceleratorConfig": {"type": "V5P", "topology": "4x4x8_untwisted"}},
        ),
        (["--generation", "tpu7x", "--topology", "2x2x1"], {"acceleratorType": "tpu7x-8"}),
    ],
)
def test_a_slice_is_asked_for_by_type_or_by_topology(tpuctl, plane, options, asked):
    plane.set("/v2/projects/local/locations/z/nodes", {"name": OPERATION, "done": True}, "POST")
    result = tpuctl("create", "slice", "demo", "--zone", "z", *options)
    assert result.exit_code == 0, result.stderr
    sent = created(plane)
    assert {field: sent[field] for field in sent if field.startswith("accelerator")} == asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--generation", "v4", "--topology", "2x4x2"], "use 2x2x4"),
        (["--generation", "v4"], "give --type, or --generation with --topology"),
        (["--type", "v3-8", "--generation", "v3", "--topology", "2x2"], "give --type, or --generation with --topology"),
        (["--type", "v3-9"], "Did you mean v3-8?"),
        (["--generation", "7x", "--topology", "4x4x16"], "can only have its type's own topology"),
    ],
)
def test_what_there_is_not_cannot_be_created(tpuctl, plane, options, message):
    result = tpuctl("create", "slice", "demo", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not [path for method, path, _ in plane.requests if method == "POST"]


# Faults


def test_a_fault_is_told_to_the_slice_and_how_to_end_it(tpuctl, plane):
    path = "/tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo:fault"
    plane.add_node("demo")
    answer = {"name": "demo", "zone": "europe-west4-a", "type": "v3-8", "state": "READY", "chips": 4, "cores": 8}
    plane.set(path, answer, "POST")
    result = tpuctl("fault", "link", "demo", "0,0", "0,1")
    assert result.exit_code == 0
    assert "tpuctl fault link demo 0,0 0,1 --recover" in result.stderr
    assert plane.requests[-1] == (
        "POST",
        path,
        {"part": "link", "where": ["0,0", "0,1"], "sliceIndex": 0, "recover": False},
    )
    assert "Host 0 of slice demo works again" in tpuctl("fault", "host", "demo", "0", "--recover").stderr


def test_faults_are_listed(tpuctl, plane):
    plane.add_node("demo")
    path = "GET /tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo"
    found = plane.answers[path][1]
    assert "All parts of slice demo work" in tpuctl("fault", "list", "demo").stderr
    faults = [{"part": "link", "where": ["0,0,0", "0,1,0"], "sliceIndex": 0}]
    plane.answers[path] = (200, found | {"faults": faults})
    assert tpuctl("fault", "list", "demo").stdout.splitlines()[1].split() == ["link", "0,0", "0,1"]


def test_failed_chips_are_marked_in_the_drawing_of_a_slice(tpuctl, plane):
    plane.add_node("demo")
    path = "GET /tpuctl/v1/projects/local/locations/europe-west4-a/slices/demo"
    found = plane.answers[path][1]
    faults = [{"part": "chip", "where": ["1,0,0"], "sliceIndex": 0}, {"part": "link", "where": ["0,0,0", "0,1,0"]}]
    plane.answers[path] = (200, found | {"faults": faults})
    text = tpuctl("describe", "slice", "demo").stdout
    assert "chip 1,0 ✗ failed" in text
    assert text.count("✗ failed") == 1
    assert "failed links: 0,0 - 0,1" in text
    host = {"part": "host", "where": ["3"], "sliceIndex": 0, "chips": ["2,2,0", "2,3,0", "3,2,0", "3,3,0"]}
    plane.answers[path] = (200, found | {"type": "v3-32", "topology": "4x4", "perCore": [], "faults": [host]})
    rows = tpuctl("describe", "slice", "demo").stdout
    assert rows.count("· · ✗ ✗") == 2
    assert "✗ failed" in rows


def test_status_says_that_a_slice_with_failed_parts_is_unhealthy():
    from tpuctl.cli.status_view import SLICES

    state = next(column.cell for column in SLICES if column.heading == "STATE")
    assert str(state({"state": "READY", "health": "UNHEALTHY_MAINTENANCE"})) == "READY UNHEALTHY"
    assert str(state({"state": "READY", "health": "HEALTHY"})) == "READY"
