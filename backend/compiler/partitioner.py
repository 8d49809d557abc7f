"""A process that cuts programs into per-core programs, by XLA's own SPMD partitioner.

All that is private to a jaxlib version lives here. jaxlib's CPU client is asked to compile the global module with only
the partitioning passes enabled and to dump the module after them; the dump is the per-core program. What XLA would do
next, generate code for the host, is of no use, takes most of the time, and ends the process for some programs. So each
request is served by a forked child, which is killed as soon as the dump is complete.

Requests on stdin: number of partitions, two lengths, module bytecode, CompileOptionsProto. Replies on stdout: status,
length, HloModuleProto or error. Ends when stdin does.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxlib import xla_client

REQUEST = struct.Struct("!IQQ")
REPLY = struct.Struct("!BQ")
DONE, FAILED = 0, 1

_PASSES = "shardy-xla,spmd-partitioning"
_DUMP = "*after_spmd-partitioning*.hlo.pb"
_NEXT_DUMP = "*after_optimizations*"
_POLL_SECONDS = 0.002
_FIRST_WITH_MATERIALIZATION_OPTION = 430


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    while header := requests.read(REQUEST.size):
        partitions, module_length, options_length = REQUEST.unpack(header)
        module, options = requests.read(module_length), requests.read(options_length)
        status, payload = _partition(module, options, partitions)
        replies.write(REPLY.pack(status, len(payload)) + payload)
        replies.flush()


def _partition(module: bytes, options: bytes, partitions: int) -> tuple[int, bytes]:
    folder = Path(tempfile.mkdtemp(prefix="tpuctl-partition-", dir=_memory_folder()))
    try:
        child = os.fork()
        if child == 0:
            _compile_and_exit(module, options, partitions, folder)
        _wait_for_dump(child, folder)
        dumps = sorted(folder.glob(_DUMP))
        if dumps:
            return DONE, _hlo_module(dumps[0].read_bytes())
        problem = folder / "problem"
        return FAILED, problem.read_bytes() if problem.exists() else b"XLA's partitioner crashed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  (the folder's own name is random)


def _compile_and_exit(module: bytes, options: bytes, partitions: int, folder: Path) -> None:
    """The child: never returns."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # XLA reports its crashes there; the parent tells what matters
    try:
        client = xla_client.make_cpu_client(num_devices=partitions)
        devices = xla_client.DeviceList(tuple(client.devices()))
        client.compile_and_load(module, devices, _passes_only(options, partitions, folder))
    except xla_client.XlaRuntimeError as error:
        (folder / "problem").write_text(str(error))
    finally:
        os._exit(0)


def _wait_for_dump(child: int, folder: Path) -> None:
    """Until the pass after the partitioner has begun (so its dump is complete) or the child has ended."""
    while True:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            return
        if any(folder.glob(_NEXT_DUMP)):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(_POLL_SECONDS)


def _passes_only(serialized: bytes, partitions: int, folder: Path) -> Any:
    """The caller's compile options, for the CPU client's own devices, cut down to the partitioning passes."""
    options = xla_client.CompileOptions.ParseFromString(serialized)
    build = options.executable_build_options
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(partitions).reshape(1, partitions))
    overrides: list[tuple[str, Any]] = [
        ("xla_dump_to", str(folder)),
        ("xla_dump_hlo_pass_re", "spmd-partitioning"),
        ("xla_dump_hlo_as_proto", True),
        ("xla_enable_hlo_passes_only", _PASSES),
    ]
    if int(xla_client._version) >= _FIRST_WITH_MATERIALIZATION_OPTION:
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


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    serve(sys.stdin.buffer, sys.stdout.buffer)
