"""The table of generations: every cell sourced, and the figures that follow from it as published."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields

import pytest

from backend.hardware import GENERATIONS, Generation, UnknownGeneration, generation, generations, pod_type

GIB = 1 << 30


def test_every_figure_of_a_generation_has_a_source() -> None:
    source = inspect.getsource(generations)
    rows = [line for line in source.splitlines() if line.startswith(" " * 12) and "=" in line and " name=" not in line]
    figures = [field.name for field in fields(Generation) if field.name != "name"]
    assert len(rows) == len(figures) * len(GENERATIONS)
    assert [line for line in rows if "#" not in line] == []


def test_a_core_of_v2_and_v3_has_the_announced_memory() -> None:
    assert generation("v2").hbm_bytes_per_device == 8 * GIB
    assert generation("v3").hbm_bytes_per_device == 16 * GIB


@pytest.mark.parametrize(
    ("name", "available"),
    [("v2", 7.48), ("v4", 30.75), ("v5e", 15.75), ("v5p", 95.74), ("v6e", 31.25), ("7x", 94.75)],
)
def test_available_memory_is_what_the_tpu_compiler_says_in_its_refusals(name: str, available: float) -> None:
    assert round(generation(name).hbm_available_bytes / GIB, 2) == available


@pytest.mark.parametrize("name", ["v4", "v5p"])
def test_a_device_of_a_megacore_generation_is_the_chip_with_both_cores(name: str) -> None:
    row = generation(name)
    assert (row.cores_per_chip, row.devices_per_chip) == (2, 1)
    assert row.bf16_flops_per_device == row.bf16_flops_per_chip
    assert row.hbm_bytes_per_device == row.hbm_bytes_per_chip
    assert row.vmem_bytes_per_device == 2 * row.vmem_bytes_per_core


@pytest.mark.parametrize("name", ["v2", "v3", "7x"])
def test_a_device_of_the_other_two_core_generations_is_one_core(name: str) -> None:
    row = generation(name)
    assert row.devices_per_chip == row.cores_per_chip == 2
    assert row.bf16_flops_per_device * 2 == row.bf16_flops_per_chip


@pytest.mark.parametrize(("name", "terabytes"), [("v4", 1106), ("v5e", 51.2), ("v6e", 102.4)])
def test_all_links_of_a_pod_together_are_its_published_all_reduce_bandwidth(name: str, terabytes: float) -> None:
    row = generation(name)
    links = math.prod(row.pod_shape) * row.ici_links_per_chip
    assert links * row.ici_bytes_per_second_per_link == pytest.approx(terabytes * 1e12, rel=0.01)


@pytest.mark.parametrize(
    ("name", "chips"),
    [("v2", 256), ("v3", 1024), ("v4", 4096), ("v5e", 256), ("v5p", 8960), ("v6e", 256), ("7x", 9216)],
)
def test_a_full_pod_has_the_published_chips(name: str, chips: int) -> None:
    assert pod_type(name).num_chips == chips == generation(name).max_chips


@pytest.mark.parametrize(("alias", "name"), [("v5litepod", "v5e"), ("tpu7x", "7x"), ("v3", "v3")])
def test_a_generation_is_known_by_its_other_names(alias: str, name: str) -> None:
    assert generation(alias).name == name


def test_an_unknown_generation_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownGeneration, match='"v9" is not a TPU generation; there are v2, v3, v4, v5e'):
        generation("v9")
