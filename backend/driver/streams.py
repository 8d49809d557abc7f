"""How does a callback's answer come out of C++? Through a PJRT_CopyToDeviceStream, chunk by chunk."""

from __future__ import annotations

import ctypes
from typing import Any

from backend.driver import handles
from backend.driver.events import READY
from backend.driver.slots import slot
from backend.driver.structs import STRUCTS

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@slot("PJRT_CopyToDeviceStream_AddChunk")
def _add_chunk(args: Any) -> None:
    chunk = STRUCTS["PJRT_Chunk"].from_address(args.chunk)
    data = ctypes.string_at(chunk.data, chunk.size)
    if chunk.deleter:
        _Deleter(chunk.deleter)(chunk.data, chunk.deleter_arg)
    handles.resolve(args.stream).add(data)
    args.transfer_complete = READY


@slot("PJRT_CopyToDeviceStream_TotalBytes")
def _total_bytes(args: Any) -> None:
    args.total_bytes = 0


@slot("PJRT_CopyToDeviceStream_GranuleSize")
def _granule_size(args: Any) -> None:
    args.granule_size_in_bytes = 1


@slot("PJRT_CopyToDeviceStream_CurrentBytes")
def _current_bytes(args: Any) -> None:
    args.current_bytes = handles.resolve(args.stream).answered
