"""How does a program start? PJRT execution: handles in, an Execute message out, new buffers back at once."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any

from backend.driver import handles
from backend.driver.buffers import Buffer
from backend.driver.callbacks import callbacks_of
from backend.driver.devices import Device
from backend.driver.events import completion_event
from backend.driver.executables import Executable
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS
from backend.errors import FailedPrecondition, InvalidArgument
from backend.link.messages import Execute


class ExecuteContext(handles.Droppable):
    """A PJRT_ExecuteContext, which carries nothing for this device."""


@slot("PJRT_ExecuteContext_Create")
def _create_context(args: Any) -> None:
    args.context = handles.new(ExecuteContext())


@slot("PJRT_LoadedExecutable_Execute")
def _execute(args: Any) -> None:
    handles.sweep()
    executable: Executable = handles.resolve(args.executable)
    if executable.deleted:
        raise FailedPrecondition(f"the executable of {executable.compiled.name} has been deleted")
    options = STRUCTS["PJRT_ExecuteOptions"].from_address(args.options)
    arguments = _arguments(args.argument_lists, args.num_devices, args.num_args)
    keep = _kept(options)
    devices, cores = executable.devices, []
    if args.execute_device:
        devices = [handles.resolve(args.execute_device)]
        cores = [devices[0].core.id]
    session = executable.client.session
    first = session.new_numbers(len(devices) * len(executable.result_types))
    numbers = [buffer.number for buffer in arguments]
    _check_donated(executable, numbers, args.num_args, keep)
    calls = callbacks_of(options, args.num_devices) if options.num_send_ops or options.num_recv_ops else None
    sequence = session.launch(lambda sequence: Execute(sequence, executable.number, numbers, first, cores, keep), calls)
    _mark_donated(executable, arguments, args.num_args, keep)
    _give_results(args.output_lists, executable, devices, first, sequence)
    if args.device_complete_events:
        events = (ctypes.c_void_p * args.num_devices).from_address(args.device_complete_events)
        for index in range(args.num_devices):
            events[index] = completion_event(session, sequence)


def _arguments(lists: int, num_devices: int, num_args: int) -> list[Buffer]:
    """The argument buffers, device after device. Raises FailedPrecondition if one is deleted."""
    if not num_args:
        return []
    rows = (ctypes.c_size_t * num_devices).from_address(lists)
    row_type = ctypes.c_size_t * num_args
    resolve = handles.resolve
    buffers = [resolve(handle) for row in rows for handle in row_type.from_address(row)]
    for buffer in buffers:
        if buffer.deleted:
            buffer.require_alive()
    return buffers


def _kept(options: Any) -> list[int]:
    """Parameters that must not be donated in this call."""
    count = options.num_non_donatable_input_indices
    return list((ctypes.c_int64 * count).from_address(options.non_donatable_input_indices)) if count else []


def _check_donated(executable: Executable, numbers: list[int], num_args: int, keep: list[int]) -> None:
    """Raise InvalidArgument if a buffer that is donated is an argument twice."""
    donated = executable.donated.difference(keep)
    if not donated or len(set(numbers)) == len(numbers):
        return
    counts = Counter(numbers)
    for index, number in enumerate(numbers):
        if index % num_args in donated and counts[number] > 1:
            raise InvalidArgument(
                f"attempt to donate a buffer that the same call uses twice (flattened argument {index % num_args}): "
                "donate a copy, or don't donate it"
            )


def _mark_donated(executable: Executable, arguments: list[Buffer], num_args: int, keep: list[int]) -> None:
    if donated := executable.donated.difference(keep):
        for index, buffer in enumerate(arguments):
            if index % num_args in donated:
                buffer.mark_deleted()


def _give_results(lists: int, executable: Executable, devices: list[Device], number: int, sequence: int) -> None:
    count = len(executable.result_types)
    rows = (ctypes.c_size_t * len(devices)).from_address(lists)
    kinds = list(zip(executable.result_types, executable.result_memories, strict=True))
    for device, row in zip(devices, rows, strict=True):
        outputs = (ctypes.c_void_p * count).from_address(row) if count else ()
        for index, ((shape, dtype), memory) in enumerate(kinds):
            buffer = Buffer(number, device.memories[memory], shape, dtype, sequence)
            outputs[index] = buffer.new_handle()  # type: ignore[index]
            number += 1
