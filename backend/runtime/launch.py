"""How does a program run? Arguments out of its clients' buffers, a launch on the chips, results into their buffers.

Most launches are one client's. A program on the cores of several processes is one launch, too, for which each of them
brings the arguments on its own cores and gets the results there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from backend.link.messages import Execute
from backend.runtime.buffers import Argument, BufferTable, Column, Storage, gather, parts_of
from backend.runtime.executable import Executable
from backend.runtime.hbm import Cores, Hbm
from backend.runtime.host_calls import HostCalls, launch_calls
from backend.runtime.links import Links
from backend.runtime.machine import Machine
from backend.runtime.sharing import gather_shared
from backend.runtime.telemetry import LaunchCounters
from backend.tensorcore.value import Launch, Value


@dataclass(slots=True)
class Call:
    """One client's part of a launch; ``cores`` are its own among those of the program."""

    operation: Execute
    executable: Executable
    arguments: list[Argument]
    cores: Cores
    buffers: BufferTable
    host_calls: HostCalls


class Launcher:
    """Runs programs on the chips of one slice, one at a time."""

    def __init__(self, machine: Machine, hbm: Hbm, counters: LaunchCounters, links: Links) -> None:
        self._machine = machine
        self._hbm = hbm
        self._counters = counters
        self._links = links

    def run(self, job: str, calls: Sequence[Call]) -> None:
        """Launch the program of ``calls``, one of each process that it needs. Raises TpuError."""
        call, executable = calls[0], calls[0].executable
        self._check_links(call)
        values = _values(calls)
        cores = call.cores if len(calls) == 1 else executable.cores
        donated_bytes = sum(parts_of(call.arguments[index])[0][0].hbm_bytes for index in _donated(call))
        needed_bytes = executable.needed_bytes(donated_bytes)
        self._hbm.require(cores, needed_bytes, executable.launch_purpose)
        for each in calls:
            for index in _donated(each):
                each.buffers.release_argument(each.operation.inputs[index])
        held_bytes, result_bytes = donated_bytes + needed_bytes, executable.result_bytes
        self._hbm.hold(cores, held_bytes)
        try:
            launch = self._launch(job, calls, values)
        except BaseException:
            self._hbm.free(cores, held_bytes)
            raise
        self._hbm.settle(cores, held_bytes, result_bytes)
        storages = [Storage(value, self._machine.recycle) for value in launch.results]
        for each in calls:
            self._add_results(each, storages)

    def _launch(self, job: str, calls: Sequence[Call], values: Sequence[Value]) -> Launch:
        executable = calls[0].executable
        started = time.perf_counter()
        if executable.reaches_host:
            host = launch_calls([(call.host_calls, call.operation.sequence, call.executable.places) for call in calls])
            try:
                launch = executable.loaded.run(values, host)
            finally:
                host.settle()  # no callback may still be running when the launch is reported as over
        else:
            launch = executable.loaded.run(values)
        executable.host_seconds = time.perf_counter() - started
        device_seconds = launch.device_seconds + executable.link_seconds
        self._counters.record(job, device_seconds, launch.mxu_seconds, executable.host_seconds)
        return launch

    def _check_links(self, call: Call) -> None:
        """Raises Unavailable if a chip of the launch has failed, or no way is left between two of them."""
        executable, links, version = call.executable, self._links, self._links.version
        if version:
            links.check(call.operation.cores or executable.ready.program.device_ids, executable.name)
        if executable.links_version != version:
            executable.link_seconds = links.seconds(executable.ready.program)
            executable.links_version = version

    def _add_results(self, call: Call, storages: Sequence[Storage]) -> None:
        executable, hbm, cores = call.executable, self._hbm, call.cores
        count, places = executable.num_own_cores, executable.places
        results = zip(storages, executable.results, strict=True)
        for number, (storage, (kind, size)) in enumerate(results, call.operation.outputs):
            column = Column(kind, storage, count, places=places)
            if size is not None:
                column.hbm, column.where, column.hbm_bytes = hbm, cores, size
            call.buffers.add(number, column)


def _donated(call: Call) -> Collection[int]:
    return call.executable.donated(call.operation)


def _values(calls: Sequence[Call]) -> list[Value]:
    """The program's arguments. Raises the error of a poisoned buffer."""
    if len(calls) == 1:
        return [gather(argument) for argument in calls[0].arguments]
    executable = calls[0].executable
    return [
        gather_shared([(call.arguments[index], call.executable.own_places) for call in calls], executable.num_cores)
        for index in range(len(executable.parameters))
    ]
