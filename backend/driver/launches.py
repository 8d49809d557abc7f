"""How does a program start? PJRT execution: handles in, an Execute message out, new buffers back at once."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from backend.driver import cells, handles, native
from backend.driver.callbacks import callbacks_of
from backend.driver.columns import NO_NUMBER, Buffer, Column
from backend.driver.executables import Executable
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS
from backend.errors import FailedPrecondition, InvalidArgument
from backend.link.messages import Execute

_NOTHING = np.dtype("bool")


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
    keep = _kept(options)
    devices, cores = executable.devices, []
    if args.execute_device:
        devices = [handles.resolve(args.execute_device)]
        cores = [devices[0].core.id]
    session, count, width = executable.client.session, args.num_devices, args.num_args
    if not count:
        return  # a program of other processes
    columns = _columns(args.argument_lists, count, width)
    donated = executable.donated.difference(keep)
    _check_donated(columns, donated, args.argument_lists, count)
    inputs: list[int | list[int]] = [
        column.number if column is not None else _numbers(args.argument_lists, count, index)
        for index, column in enumerate(columns)
    ]
    results = executable.result_types
    first = session.new_numbers(len(results))
    calls = callbacks_of(options, count) if options.num_send_ops or options.num_recv_ops else None
    sequence = session.launch(lambda sequence: Execute(sequence, executable.number, inputs, first, cores, keep), calls)
    for index in donated:
        native.mark(args.argument_lists, count, index)
        if (column := columns[index]) is not None:
            column.released = True
    places = executable.places if not cores else [ctypes.addressof(memory.place) for memory in devices[0].memories]
    kinds = zip(results, executable.result_memories, executable.result_layouts, strict=True)
    for index, ((shape, dtype), memory, layout) in enumerate(kinds):
        column = Column(session, first + index, count, shape, dtype, sequence, layout=layout)
        column.fill(places[memory], args.output_lists, index)
        session.follow(column)
    if args.device_complete_events:
        ends = Column(session, NO_NUMBER, count, (), _NOTHING, sequence)
        ends.fill_events(places[0], args.device_complete_events)
        ends.watch(session.when_done)


def _columns(rows: int, count: int, width: int) -> list[Column | None]:
    """The columns of the arguments; None for one whose buffers are of several. Raises FailedPrecondition."""
    found = (ctypes.c_void_p * width)()
    if native.collect(rows, count, width, ctypes.addressof(found)):
        raise FailedPrecondition("the buffer has been deleted or donated")
    return [handles.resolve(handle) if handle else _assembled(rows, count, index) for index, handle in enumerate(found)]


def _cells(rows: int, count: int, index: int) -> list[int]:
    """The cells of one argument's buffers."""
    lists = (ctypes.c_size_t * count).from_address(rows)
    place = index * ctypes.sizeof(ctypes.c_size_t)
    return [ctypes.c_size_t.from_address(row + place).value for row in lists]


def _numbers(rows: int, count: int, index: int) -> list[int]:
    return [handles.resolve(cell).number for cell in _cells(rows, count, index)]


def _assembled(rows: int, count: int, index: int) -> Column | None:
    """Make an argument's buffers one column, if each is alone in its own, in HBM, and ready; else None."""
    addresses = _cells(rows, count, index)
    buffers: list[Buffer] = [handles.resolve(address) for address in addresses]
    first = buffers[0].column
    alone = all(buffer.column.count == 1 and buffer.column.is_idle() for buffer in buffers)
    if count == 1 or not alone or any(buffer.memory.kind_id for buffer in buffers):
        return None
    number = first.session.new_numbers()
    first.session.assemble([buffer.number for buffer in buffers], number)
    column = Column(first.session, number, count, first.shape, first.dtype, first.sequence, cells.READY, first.layout)
    column.adopt(addresses)
    return column


def _kept(options: Any) -> list[int]:
    """Parameters that must not be donated in this call."""
    count = options.num_non_donatable_input_indices
    return list((ctypes.c_int64 * count).from_address(options.non_donatable_input_indices)) if count else []


def _check_donated(columns: list[Column | None], donated: Collection[int], rows: int, count: int) -> None:
    """Raise InvalidArgument if a buffer that is donated is an argument twice."""
    if not donated or len(columns) < 2:
        return
    whole = Counter(column for column in columns if column is not None)
    loose = Counter(
        cell for index, column in enumerate(columns) if column is None for cell in _cells(rows, count, index)
    )
    for index in donated:
        column = columns[index]
        twice = whole[column] > 1 if column is not None else any(loose[cell] > 1 for cell in _cells(rows, count, index))
        if twice:
            raise InvalidArgument(
                f"attempt to donate a buffer that the same call uses twice (flattened argument {index}): "
                "donate a copy, or don't donate it"
            )
