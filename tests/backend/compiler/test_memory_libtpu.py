"""The memory plan beside the TPU compiler's that is installed. The recorded answers are compared in test_memory.py."""

from __future__ import annotations

import pytest

pytest.importorskip("libtpu", reason="the TPU compiler is not installed: pip install libtpu")

from typing import Any

from jax.experimental import topologies

from tests.conformance.libtpu_memory import FIELDS, QUIET, libtpu, ours, total
from tests.conformance.memory_programs import CASES


@pytest.fixture(scope="module")
def devices() -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        found: list[Any] = topologies.get_topology_desc(platform="tpu", topology_name="v3:2x2").devices
    return found


@pytest.mark.parametrize("name", CASES)
def test_plans_are_close_to_the_installed_tpu_compilers(name: str, devices: list[Any]) -> None:
    """Arguments, outputs and aliases to the byte, the total within 30%."""
    expected, actual = libtpu(CASES[name], devices), ours(CASES[name])
    assert {field: actual[field] for field in FIELDS[:-1]} == {field: expected[field] for field in FIELDS[:-1]}
    assert total(actual) == pytest.approx(total(expected), rel=0.3)
