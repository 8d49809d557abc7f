"""A fleet file says which pods there are, and what is wrong with it is said in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuctl.api.errors import ApiError
from tpuctl.control.fleet import Fleet
from tpuctl.control.fleet_file import default_fleet, read_fleet

TOML = """
grace_seconds = 10
[[pods]]
name = "big"
zone = "us-central2-b"
generation = "v4"
broken = ["3,0,1"]
spare = ["4x4x4@12,12,12"]
reserved = [{ reservation = "team", box = "8x8x8@0,0,0" }]
maintenance = [{ start = 2026-12-02T02:00:00Z, end = 2026-12-02T04:00:00Z }]
[[pods]]
zone = "us-central2-b"
generation = "v4"
shape = "8x8x8"
"""
V4 = '[[pods]]\nzone = "us-central2-b"\ngeneration = "v4"\n'
YAML = """
elastic: true
pods:
  - {zone: europe-west4-a, generation: v3, shape: 16x16}
"""


def written(folder: Path, text: str, name: str = "fleet.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_pods_are_as_a_file_says(tmp_path: Path) -> None:
    fleet = Fleet(read_fleet(written(tmp_path, TOML)))
    assert list(fleet.pods) == ["big", "v4-us-central2-b-2"]
    assert [pod.layout.shape for pod in fleet.pods.values()] == [(16, 16, 16), (8, 8, 8)]
    assert fleet.snapshot("big").num_free_chips == 4095
    assert list(Fleet(read_fleet(written(tmp_path, YAML, "fleet.yaml"))).pods) == ["v3-europe-west4-a"]


def test_by_default_each_zone_has_a_pod_of_what_it_offers() -> None:
    fleet = Fleet(default_fleet())
    assert "v3-europe-west4-a" in fleet.pods
    assert "v5p-us-east5-a" in fleet.pods
    assert len(fleet.pods) == len({(pod.zone, pod.layout.generation.name) for pod in fleet.pods.values()})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pods = 3", r"is wrong at pods: Input should be a valid"),
        ("pods = [", "is not TOML"),
        ("", "names no pods; each needs a zone and a generation"),
        ('[[pods]]\nzone = "us-central2-b"', r"is wrong at pods.0.generation: Field required"),
        ('[[pods]]\nzone = "nowhere"\ngeneration = "v4"', "Location nowhere is not found"),
        ('[[pods]]\nzone = "us-central2-b"\ngeneration = "v9"', "'v9' is no generation; there are v2, v3, v4"),
        ('[[pods]]\nzone = "us-central2-b"\ngeneration = "v3"', "v3 is not offered in us-central2-b"),
        (V4 + 'shape = "5x4x4"', "5x4x4 is no pod of v4"),
        (V4 + 'shape = "many"', "'many' is no shape"),
        (
            '[[pods]]\nzone = "us-central2-b"\ngeneration = "v4"\ncolour = "red"',
            "colour: Extra inputs are not permitted",
        ),
        (
            '[[pods]]\nzone = "us-central2-b"\ngeneration = "v4"\nbroken = ["16,0,0"]',
            "'16,0,0' is no chip of a pod of 16x",
        ),
        (
            '[[pods]]\nzone = "us-central2-b"\ngeneration = "v4"\nspare = ["8x8x8@12,0,0"]',
            "is no box in a pod of 16x16x16",
        ),
        (
            V4 + 'spare = ["4x4x4@0,0,0"]\nreserved = [{ reservation = "r", box = "4x4x8@0,0,0" }]',
            "overlaps another spare",
        ),
        (V4 + 'shape = "400x400x400"', "400x400x400 is more than a pod of v4, 16x16x16"),
        (V4 + 'name = "a/b"', "pod name 'a/b' is not valid"),
        (V4 + 'reserved = [{ reservation = "A", box = "4x4x4@0,0,0" }]', "reservation name 'A' is not valid"),
        (V4 + "maintenance = [{ start = 2026-12-01T10:00:00Z, end = 2026-12-01T10:00:00Z }]", "end is not after start"),
        (
            V4 + "maintenance = [{ start = 2026-12-01T10:00:00, end = 2026-12-01T11:00:00 }]",
            "should have timezone info",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ApiError) as raised:
        read_fleet(written(tmp_path, text))
    assert said in raised.value.message
    assert "\n" not in raised.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"cannot read the fleet file .*missing.toml: No such file"):
        read_fleet(tmp_path / "missing.toml")


def test_two_pods_of_one_name_are_refused(tmp_path: Path) -> None:
    one = '[[pods]]\nname = "a"\nzone = "us-central2-b"\ngeneration = "v4"\n'
    with pytest.raises(ApiError, match="there are two pods a"):
        Fleet(read_fleet(written(tmp_path, one + one)))
