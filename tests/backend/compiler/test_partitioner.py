"""The partitioner process: it never hangs, and leaves nothing behind, also when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from backend.compiler import compile_module
from backend.compiler.partitioner import remove_leftovers, wait_for_dump
from backend.hardware import generation


@pytest.fixture
def hanging() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def is_gone(process: subprocess.Popen[bytes]) -> bool:
    return not Path(f"/proc/{process.pid}").exists()


def test_a_child_that_hangs_is_ended_when_its_time_is_up(
    hanging: subprocess.Popen[bytes], pipe: tuple[int, int], tmp_path: Path
) -> None:
    with pytest.raises(TimeoutError, match=r"not done after 0\.1 s and was ended"):
        wait_for_dump(hanging.pid, tmp_path, pipe[0], 0.1)
    os.close(pipe[1])
    assert is_gone(hanging)


def test_a_child_that_nobody_waits_for_any_more_is_ended(
    hanging: subprocess.Popen[bytes], pipe: tuple[int, int], tmp_path: Path
) -> None:
    os.close(pipe[1])
    wait_for_dump(hanging.pid, tmp_path, pipe[0], 10)
    assert is_gone(hanging)


def test_folders_of_dead_partitioners_are_removed_and_those_of_living_ones_left(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale = tmp_path / f"tpuctl-partition-{ended.pid}-abc"
    living, other = tmp_path / f"tpuctl-partition-{os.getpid()}-abc", tmp_path / "other-1-abc"
    for folder in (stale, living, other):
        folder.mkdir()
        (folder / "dump").write_text("")
    remove_leftovers(tmp_path)
    assert set(tmp_path.iterdir()) == {living, other}


def test_a_program_for_more_cores_than_a_cpu_client_has_devices_is_partitioned() -> None:
    from jax._src.compiler import get_compile_options
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    cores = 4096
    text = f"""module @sum attributes {{mhlo.num_partitions = {cores} : i32, mhlo.num_replicas = 1 : i32}} {{
        func.func public @main(%x: tensor<8192xf32> {{mhlo.sharding = "{{devices=[{cores}]<=[{cores}]}}"}})
                -> (tensor<f32> {{mhlo.sharding = "{{replicated}}"}}) {{
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
                : (tensor<8192xf32>, tensor<f32>) -> tensor<f32>
            return %sum : tensor<f32>
        }}
    }}"""
    with mlir.make_ir_context():
        module = mlir.module_to_bytecode(ir.Module.parse(text))
    options = get_compile_options(1, cores, device_assignment=np.arange(cores).reshape(1, cores))
    program = compile_module(module, options.SerializeAsString(), generation("v4"))
    assert [kind.shape for kind in program.parameters] == [(2,)]
    assert program.device_ids == list(range(cores))
    assert [(one.kind, one.nbytes, one.groups) for one in program.cost.collectives] == [("all_reduce", 4, ())]
