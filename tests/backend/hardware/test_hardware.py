"""The tables of the hardware: every cell sourced, names, shapes and device order."""

from __future__ import annotations

import inspect

import pytest

from backend.hardware import (
    ACCELERATOR_TYPES,
    GENERATIONS,
    UnknownAcceleratorType,
    accelerator_type,
    core_locations,
    generation,
    generations,
)


def test_every_figure_of_a_generation_has_a_source() -> None:
    source = inspect.getsource(generations)
    rows = [line for line in source.splitlines() if line.startswith(" " * 12) and "=" in line and "name=" not in line]
    assert len(rows) > 20
    assert [line for line in rows if "#" not in line] == []


def test_a_core_has_the_announced_memory() -> None:
    assert generation("v2").hbm_bytes_per_core == 8 << 30
    assert generation("v3").hbm_bytes_per_core == 16 << 30


def test_what_the_system_reserves_is_not_available() -> None:
    assert round(generation("v2").hbm_available_bytes / (1 << 30), 2) == 7.48


@pytest.mark.parametrize("name", ACCELERATOR_TYPES)
def test_the_number_in_a_name_counts_cores(name: str) -> None:
    kind = accelerator_type(name)
    assert kind.num_cores == int(name.split("-")[1])
    assert kind.generation is GENERATIONS[name.split("-", maxsplit=1)[0]]
    assert len(core_locations(kind)) == kind.num_cores


def test_cores_of_a_chip_are_neighbours_in_device_order() -> None:
    locations = core_locations(accelerator_type("v3-8"))
    assert [(core.id, core.coords, core.core_on_chip) for core in locations[:4]] == [
        (0, (0, 0, 0), 0),
        (1, (0, 0, 0), 1),
        (2, (1, 0, 0), 0),
        (3, (1, 0, 0), 1),
    ]
    assert locations[-1].coords == (1, 1, 0)


def test_an_unknown_type_is_answered_with_the_nearest_and_the_valid_ones() -> None:
    with pytest.raises(UnknownAcceleratorType, match=r"Did you mean v3-8\? Valid types: v2-8, v3-8"):
        accelerator_type("v3_8")
