"""In what order do a buffer's dimensions lie in memory? The layouts extension: row-major, if nothing else was said."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from backend.driver import handles, lasting
from backend.driver.executables import Executable
from backend.driver.native import NOTHING
from backend.driver.slots import slot


class Layout(handles.Droppable):
    """An order of dimensions, in XLA's notation from minor to major: {2,1,0}."""

    def __init__(self, order: Sequence[int]) -> None:
        self.text = "{" + ",".join(map(str, order)) + "}"


def _row_major(rank: int) -> Layout:
    return Layout(range(rank)[::-1])


@slot("PJRT_Layouts_MemoryLayout_Serialize")
def _serialize(args: Any) -> None:
    text = lasting.text(handles.resolve(args.layout).text)
    args.serialized_bytes, args.serialized_bytes_size = text
    args.serialized_layout, args.serialized_layout_deleter = text[0], NOTHING


@slot("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
@slot("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def _default_layout(args: Any) -> None:
    args.layout = handles.new(_row_major(args.num_dims))


@slot("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
def _buffer_layout(args: Any) -> None:
    column = handles.resolve(args.buffer).column
    args.layout = handles.new(Layout(column.layout) if column.layout else _row_major(len(column.shape)))


@slot("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
def _output_layouts(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.layouts, args.num_outputs = _layouts(executable, executable.compiled.result_layouts)


@slot("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
def _parameter_layouts(args: Any) -> None:
    executable = handles.resolve(args.executable)
    args.layouts, args.num_parameters = _layouts(executable, executable.compiled.argument_layouts)


def _layouts(executable: Executable, orders: Sequence[Sequence[int]]) -> tuple[int, int]:
    return executable.kept.array(ctypes.c_void_p, [handles.new(Layout(order)) for order in orders])
