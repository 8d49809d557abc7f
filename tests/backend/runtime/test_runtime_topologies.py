"""A slice runtime of any type and topology: how it introduces its devices, and what it refuses."""

from __future__ import annotations

import json

import pytest

from backend.hardware import InvalidTopology
from backend.runtime import process
from backend.runtime.slice import Slice


def test_devices_are_introduced_host_by_host() -> None:
    cores = Slice("a", "v3-32").welcome().cores
    assert [core.id for core in cores[:10]] == [0, 1, 2, 3, 8, 9, 10, 11, 4, 5]
    assert cores[4].coords == [0, 1, 0]


def test_one_process_owns_all_and_several_own_the_hosts_in_order() -> None:
    chips = Slice("a", "v4-32")
    assert {core.process_index for core in chips.welcome().cores} == {0}
    assert [core.process_index for core in chips.welcome(2).cores] == [0] * 8 + [1] * 8


@pytest.mark.parametrize(
    ("name", "joined", "devices"), [("v4-8", 2, 4), ("v3-8", 1, 8), ("v6e-8", 1, 8), ("v5p-8", 2, 4)]
)
def test_a_megacore_device_joins_two_tensor_cores(name: str, joined: int, devices: int) -> None:
    welcome = Slice("a", name).welcome()
    assert (welcome.tensor_cores, len(welcome.cores)) == (joined, devices)


def test_slices_of_a_multislice_count_on() -> None:
    cores = Slice("a", "v4-8", slices=2).welcome().cores
    assert [(core.id, core.slice_index) for core in cores] == [(i, i // 4) for i in range(8)]


def test_another_topology_of_as_many_chips() -> None:
    chips = Slice("a", "v4-512", topology="4x4x16")
    assert chips.telemetry()["topology"] == "4x4x16"
    assert max(core.coords[2] for core in chips.welcome().cores) == 15


def test_a_topology_that_there_is_not_ends_the_process_with_a_word(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    monkeypatch.setattr(process, "log_in", lambda _: None)
    (tmp_path / "token").write_text("x")
    options = {"--directory": str(tmp_path), "--name": "a", "--type": "v4-16", "--topology": "2x4x2", "--port": "0"}
    assert process.main([word for option in options.items() for word in option]) == 2
    assert "use 2x2x4" in capsys.readouterr().err
    assert "use 2x2x4" in json.loads((tmp_path / "runtime-error.json").read_text())["message"]
    with pytest.raises(InvalidTopology):
        Slice("a", "v4-16", topology="2x2x4")
