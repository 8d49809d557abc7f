"""What do compile options say, and are they valid? XLA itself says, by way of a program that does nothing."""

from __future__ import annotations

import re
from typing import Any

from jaxlib import xla_client

from backend.compiler.partition import Partitioner
from backend.compiler.partitioner import ONLY_ON_TPU
from backend.errors import Internal, InvalidArgument

_NOTHING = b"""module @options attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
}"""
_INVALID = "INVALID_ARGUMENT: "
_ASSIGNED = re.compile(r"\{(\d+)\}")


def read_options(compile_options: bytes) -> Any:
    """The bindings' CompileOptions. Raises InvalidArgument."""
    try:
        return xla_client.CompileOptions.ParseFromString(compile_options)
    except Exception as error:  # noqa: BLE001  (the bindings raise bare errors)
        raise InvalidArgument(f"the compile options can't be read: {error}") from None


def assigned_devices(build: Any) -> list[int]:
    """Device of each partition. The bindings show an assignment only as text: "Computation3{4}"."""
    if build.device_assignment is None:
        return list(range(build.num_partitions))
    return [int(device) for device in _ASSIGNED.findall(repr(build.device_assignment))]


def check_overrides(options: Any, partitioner: Partitioner) -> None:
    """Raise InvalidArgument, in XLA's words, for an option that isn't there or a value that it can't have.

    ``options`` are the bindings' CompileOptions. Options of the TPU compiler alone are taken as they are: they tune
    what it does, and nobody here knows them.
    """
    if all(name.startswith(ONLY_ON_TPU) for name, _ in options.env_option_overrides):
        return
    trial = xla_client.CompileOptions.ParseFromString(options.SerializeAsString())
    trial.executable_build_options.num_partitions = 2
    trial.executable_build_options.use_spmd_partitioning = True
    try:
        partitioner.partition(_NOTHING, trial.SerializeAsString(), 2)
    except Internal as error:
        if _INVALID in error.message:
            raise InvalidArgument(error.message.split(_INVALID, 1)[1]) from None
        raise
