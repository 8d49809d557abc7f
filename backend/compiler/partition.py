"""How is a program cut into per-core programs? By XLA's own SPMD partitioner.

All that is private to a jaxlib version lives here. jaxlib's CPU client is asked to compile the global module with
only the partitioning passes enabled and to dump the module after them; the dump, turned back into StableHLO, is the
per-core program: per-core shapes and plain collectives.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from jax._src.compiler import get_compile_options
from jaxlib import xla_client
from jaxlib.mlir import ir

from backend.errors import Internal

_PASSES = "shardy-xla,spmd-partitioning"
_DUMPED = "spmd-partitioning"
_LAST_WITHOUT_MATERIALIZATION_OPTION = 430

_clients: dict[int, Any] = {}
_lock = threading.Lock()


def partition(module: bytes, num_partitions: int, context: ir.Context) -> ir.Module:
    """The per-core StableHLO module of a global ``module`` (MLIR bytecode) for ``num_partitions`` cores.

    Raises Internal if XLA makes no partitioned module; its own error is in the message.
    """
    with _lock:
        client = _client(num_partitions)
        folder = Path(tempfile.mkdtemp(prefix="tpuctl-partition-", dir=_scratch()))
        problem = "no error was reported"
        try:
            try:
                client.compile_and_load(module, xla_client.DeviceList(tuple(client.devices())), _options(num_partitions, folder))
            except xla_client.XlaRuntimeError as error:
                problem = str(error)  # code generation after the partitioner may fail: its module is already dumped
            dumps = sorted(folder.glob(f"*after_{_DUMPED}*.hlo.pb"))
            if not dumps:
                raise Internal(f"XLA could not partition this program for {num_partitions} cores: {problem}")
            hlo = _hlo_module(dumps[0].read_bytes())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return ir.Module.parse(xla_client._xla.mlir.hlo_to_stablehlo(hlo), context)


def _client(num_partitions: int) -> Any:
    if num_partitions not in _clients:
        _clients[num_partitions] = xla_client.make_cpu_client(num_devices=num_partitions)
    return _clients[num_partitions]


def _scratch() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  (memory, not a predictable file name)


def _options(num_partitions: int, dump_folder: Path) -> Any:
    options = get_compile_options(
        num_replicas=1,
        num_partitions=num_partitions,
        device_assignment=np.arange(num_partitions).reshape(1, num_partitions),
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    overrides: list[tuple[str, Any]] = [
        ("xla_dump_to", str(dump_folder)),
        ("xla_dump_hlo_pass_re", _DUMPED),
        ("xla_dump_hlo_as_proto", True),
        ("xla_enable_hlo_passes_only", _PASSES),
    ]
    if int(xla_client._version) >= _LAST_WITHOUT_MATERIALIZATION_OPTION:
        overrides.append(("xla_enable_rgv3_materialization", False))  # otherwise the replica groups are wrong
    options.env_option_overrides = overrides
    return options


def _hlo_module(proto: bytes) -> bytes:
    """The HloModuleProto inside a dumped HloProto: its first field, length-delimited."""
    length, shift, position = 0, 0, 1
    while True:
        byte = proto[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return proto[position : position + length]
