"""A process that cuts programs into per-core programs, by XLA's own SPMD partitioner.

All that is private to a jaxlib version lives here. jaxlib's CPU client is asked to compile the global module with only
the partitioning passes enabled and to dump the module after them; the dump is the per-core program. What XLA would do
next, generate code for the host, is of no use, takes most of the time, and ends the process for some programs. So each
request is served by a forked child, which is killed as soon as the dump is complete, when its time is up, or when
nobody waits for it any more. The dump's folder has the process's pid in its name: the next partitioner removes those
that a killed one has left.

Requests on stdin: number of partitions, two lengths, module bytecode, CompileOptionsProto. Replies on stdout: status,
two lengths, HloModuleProto or error, what inspection.py wrote down. Ends when stdin does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
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
REPLY = struct.Struct("!BQQ")
DONE, FAILED = 0, 1

_PASSES = "call-inliner,shardy-xla,spmd-partitioning"
"""Functions are inlined as in XLA's own pipelines. Left alone, a value that is unreduced where it leaves a function is
summed there, and a host callback in a function of its own inside a manual computation ends the process."""
ONLY_ON_TPU = "xla_tpu_"
"""How the names of options begin that only the TPU compiler has."""
_MOST_DEVICES = 2048
"""Devices that a CPU client has at most. More partitions share them: the passes do not look at which device it is."""
_DUMP = "*after_spmd-partitioning*.hlo.pb"
_NEXT_DUMP = "*after_optimizations*"
_INSPECTED = b"InspectSharding"
_INSPECTIONS = "inspections"
_POLL_SECONDS = 0.002
_LIMIT_SECONDS = 3600.0
"""Far more than the largest programs take; what takes longer hangs."""
_PR_SET_PDEATHSIG = 1
_FOLDER = "tpuctl-partition-"
_FIRST_WITH_MATERIALIZATION_OPTION = 430


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    remove_leftovers(_memory_folder())
    while header := requests.read(REQUEST.size):
        partitions, module_length, options_length = REQUEST.unpack(header)
        module, options = requests.read(module_length), requests.read(options_length)
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_memory_folder()))
        child = os.fork()
        if child == 0:
            _compile_and_exit(module, options, partitions, folder)
        try:
            status, payload, inspections = _result(child, folder, requests.fileno())
            replies.write(REPLY.pack(status, len(payload), len(inspections)) + payload + inspections)
            replies.flush()
        finally:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)  # which takes longer than it takes to use the reply
            shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(memory: Path) -> None:
    """Remove the folders of partitioners that were killed."""
    for folder in memory.glob(f"{_FOLDER}*"):
        owner = re.match(rf"{_FOLDER}(\d+)-", folder.name)
        if owner is not None and not _is_alive(int(owner[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _result(child: int, folder: Path, caller: int) -> tuple[int, bytes, bytes]:
    """What the child has left in its folder: status, HloModuleProto or error, what inspection.py wrote down."""
    try:
        wait_for_dump(child, folder, caller)
    except TimeoutError as error:
        return FAILED, str(error).encode(), b""
    dumps = sorted(folder.glob(_DUMP))
    if dumps:
        report = folder / _INSPECTIONS
        return DONE, _hlo_module(dumps[0].read_bytes()), report.read_bytes() if report.exists() else b""
    problem = folder / "problem"
    return FAILED, problem.read_bytes() if problem.exists() else b"XLA's partitioner crashed", b""


def _memory_folder() -> Path:
    shared = "/dev/shm"  # noqa: S108  (the names of folders in it are random)
    return Path(shared if os.access(shared, os.W_OK) else tempfile.gettempdir())


def _compile_and_exit(module: bytes, options: bytes, partitions: int, folder: Path) -> None:
    """The child: never returns."""
    _die_with_parent()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # XLA reports its crashes there; the parent tells what matters
    try:
        if _INSPECTED in module:
            from backend.compiler.inspection import watch

            module = watch(module, folder / _INSPECTIONS)
        client = xla_client.make_cpu_client(num_devices=min(partitions, _MOST_DEVICES))
        devices = xla_client.DeviceList(tuple(client.devices()))
        client.compile_and_load(module, devices, _passes_only(options, partitions, folder))
    except xla_client.XlaRuntimeError as error:
        (folder / "problem").write_text(str(error))
    finally:
        os._exit(0)


def _die_with_parent() -> None:
    """Let the kernel kill this process when the partitioner is killed."""
    with contextlib.suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for_dump(child: int, folder: Path, caller: int, limit_seconds: float = _LIMIT_SECONDS) -> None:
    """Until the pass after the partitioner has begun (so its dump is complete) or the child has ended.

    A child that is done is killed, but not waited for. Raises TimeoutError when its time is up; returns when the other
    end of ``caller``, a pipe, is closed.
    """
    hangup = select.poll()
    hangup.register(caller, 0)
    deadline = time.monotonic() + limit_seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if any(folder.glob(_NEXT_DUMP)):
            os.kill(child, signal.SIGKILL)
            return
        is_late = time.monotonic() > deadline
        if is_late or hangup.poll(0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if is_late:
                raise TimeoutError(f"the partitioner was not done after {limit_seconds:g} s and was ended")
            return
        time.sleep(_POLL_SECONDS)


def _passes_only(serialized: bytes, partitions: int, folder: Path) -> Any:
    """The caller's compile options, for the CPU client's own devices, cut down to the partitioning passes."""
    options = xla_client.CompileOptions.ParseFromString(serialized)
    build = options.executable_build_options
    devices = np.arange(partitions) % _MOST_DEVICES
    build.device_assignment = xla_client.DeviceAssignment.create(devices.reshape(1, partitions))
    overrides: list[tuple[str, Any]] = [
        ("xla_dump_to", str(folder)),
        ("xla_dump_hlo_pass_re", "spmd-partitioning"),
        ("xla_dump_hlo_as_proto", True),
        ("xla_enable_hlo_passes_only", _PASSES),
    ]
    if int(xla_client._version) >= _FIRST_WITH_MATERIALIZATION_OPTION:
        overrides.append(("xla_enable_rgv3_materialization", False))  # otherwise the replica groups are wrong
    theirs = [override for override in options.env_option_overrides if not override[0].startswith(ONLY_ON_TPU)]
    options.env_option_overrides = [*theirs, *overrides]
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
