"""In what order do a buffer's dimensions lie in memory? The layouts extension: row-major, always."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver import handles, lasting
from backend.driver.native import NOTHING
from backend.driver.slots import slot


class Layout(handles.Droppable):
    """A row-major layout, in XLA's notation from minor to major: {2,1,0}."""

    def __init__(self, rank: int) -> None:
        self.text = "{" + ",".join(str(axis) for axis in reversed(range(rank))) + "}"


@slot("PJRT_Layouts_MemoryLayout_Serialize")
def _serialize(args: Any) -> None:
    text = lasting.text(handles.resolve(args.layout).text)
    args.serialized_bytes, args.serialized_bytes_size = text
    args.serialized_layout, args.serialized_layout_deleter = text[0], NOTHING


@slot("PJRT_Layouts_PJRT_Client_GetDefaultLayout")
@slot("PJRT_Layouts_PJRT_Topology_GetDefaultLayout")
def _default_layout(args: Any) -> None:
    args.layout = handles.new(Layout(args.num_dims))


@slot("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
def _buffer_layout(args: Any) -> None:
    args.layout = handles.new(Layout(len(handles.resolve(args.buffer).column.shape)))


@slot("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
def _output_layouts(args: Any) -> None:
    executable = handles.resolve(args.executable)
    layouts = [handles.new(Layout(len(result.shape))) for result in executable.compiled.results]
    args.layouts, args.num_outputs = executable.kept.array(ctypes.c_void_p, layouts)


@slot("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
def _parameter_layouts(args: Any) -> None:
    executable = handles.resolve(args.executable)
    layouts = [handles.new(Layout(len(parameter.shape))) for parameter in executable.compiled.parameters]
    args.layouts, args.num_parameters = executable.kept.array(ctypes.c_void_p, layouts)
