"""What runs without Python? What jaxlib calls for every buffer of every launch, and calls at exit.

Destructors, which jaxlib calls while an exception is pending, only push an object's cell on a list, without a lock;
``exhume`` takes the list. The code is in native.ll; the memory that it works on is described in cells.py.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from llvmlite import binding

from backend.driver.cells import FIRST_FACT
from backend.driver.structs import ARGUMENTS
from backend.pages import give_back

_WORD_BYTES = 8
_LLVM_TYPES = {"c_ubyte": "i8", "c_bool": "i8", "c_ulong": "i64", "c_void_p": "i64"}

FACTS: dict[str, tuple[str, ...]] = {
    "PJRT_Executable_NumReplicas": ("", "", "num_replicas"),
    "PJRT_Executable_NumPartitions": ("", "num_partitions"),
    "PJRT_Executable_NumOutputs": ("num_outputs",),
    "PJRT_Buffer_Device": ("device",),
    "PJRT_Buffer_Memory": ("", "memory"),
    "PJRT_Buffer_IsDeleted": ("", "", "is_deleted"),
    "PJRT_Memory_Kind": ("kind", "kind_size"),
}
"""The functions that tell facts: which field of their results each of the object's facts goes to, if any."""

IN_CODE = ("PJRT_Buffer_ReadyEvent", "PJRT_Event_IsReady", "PJRT_Event_Error", "PJRT_Event_Await", "PJRT_Event_OnReady")
"""Functions that answer for columns that are ready or watched, and leave everything else to Python (``set_python``)."""


def _offsets() -> dict[str, int]:
    """Where the fields that the code touches lie in their argument structs: "{IsReady.event}"."""
    return {
        f"{{{name.rsplit('_', 1)[1]}.{field}}}": getattr(ARGUMENTS[name], field).offset
        for name in IN_CODE
        for field, _ in ARGUMENTS[name]._fields_
    }


def _teller(name: str, fields: tuple[str, ...]) -> str:
    """The code of a function that copies facts from its object's cell to its results."""
    arguments = ARGUMENTS[name]
    lines = [f"define ptr @{name}(ptr %arguments) {{", "  %field = getelementptr i8, ptr %arguments, i64 16"]
    lines.append("  %cell = load ptr, ptr %field")
    for index, field in enumerate(fields):
        if not field:
            continue
        kind = _LLVM_TYPES[dict(arguments._fields_)[field].__name__]
        lines += [
            f"  %fact{index} = getelementptr i8, ptr %cell, i64 {(FIRST_FACT + index) * _WORD_BYTES}",
            f"  %value{index} = load {kind}, ptr %fact{index}",
            f"  %result{index} = getelementptr i8, ptr %arguments, i64 {getattr(arguments, field).offset}",
            f"  store {kind} %value{index}, ptr %result{index}",
        ]
    return "\n".join([*lines, "  ret ptr null", "}"])


def _compile() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    code = Path(__file__).with_name("native.ll").read_text()
    for field, offset in _offsets().items():
        code = code.replace(field, str(offset))
    code = "\n".join(
        [
            *(f"@python.{name} = global ptr null" for name in IN_CODE),
            code,
            *(_teller(name, fields) for name, fields in FACTS.items()),
        ]
    )
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(code), machine)
    engine.finalize_object()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # C++ calls the code until the very end of the process
    return engine


_engine = _compile()

BURY: int = _engine.get_function_address("bury")
"""void (object*): the object is dead."""
DESTROY: int = _engine.get_function_address("destroy")
"""The same, for the one object of a PJRT argument struct."""
NOTHING: int = _engine.get_function_address("nothing")
"""A function of the API that does nothing and succeeds."""
TELLERS: dict[str, int] = {name: _engine.get_function_address(name) for name in FACTS}
"""The functions that tell facts."""

exhume = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_engine.get_function_address("exhume"))
"""Take the list of dead cells: the address of its first one, or None."""

CODE: dict[str, int] = {name: _engine.get_function_address(name) for name in IN_CODE}
"""The functions that answer without Python where they can."""
GET_USER_DATA: int = _engine.get_function_address("get_user_data")
"""void* (PJRT_Memory*, void* key)."""


def _function(name: str, result: Any, *arguments: Any, keep_gil: bool = True) -> Any:
    kind = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
    return kind(result, *arguments)(_engine.get_function_address(name))


_word, _address = ctypes.c_uint64, ctypes.c_void_p
hold = _function("hold", None, _address)
"""(column): one more holds it."""
drop = _function("drop", None, _address)
"""(column): one of those who hold it does no longer."""
settle = _function("settle", None, _address)
"""(column): it is ready, unless somebody watches it."""
tell = _function("tell", None, _address, keep_gil=False)
"""(column): a watched one is ready; call back those who wait, and drop it."""
close = _function("close", _word, _address, _word)
"""(column, outcome) -> its first waiter: it is ready or has failed; nobody can wait for it any more."""
wait = _function("wait", _word, _address, _address, _address)
"""(event, callback, argument) -> whether the callback waits now; if not, the column is closed."""
fill = _function("fill", None, _address, _word, _address, _address, _address, _word, _word)
"""(block, count, column, places, rows, index, 0): make a column's buffers and put them at ``index`` of each row.

With 1 at the end: put their events, given out, in ``rows`` itself. ``places``: device and memory of each."""
collect = _function("collect", _word, _address, _word, _word, _address)
"""(rows, count, width, columns) -> whether a buffer is deleted: for each of ``width`` arguments, the column that it is
on ``count`` cores, or null if it is none."""
mark = _function("mark", None, _address, _word, _word)
"""(rows, count, index): the buffers of an argument are deleted."""


def set_python(name: str, function: int) -> None:
    """What a function of IN_CODE leaves to Python goes to ``function``."""
    ctypes.c_uint64.from_address(_engine.get_global_value_address(f"python.{name}")).value = function


def set_always_ready(event: int) -> None:
    """The event that buffers give out once they are ready."""
    ctypes.c_uint64.from_address(_engine.get_global_value_address("always_ready")).value = event


give_back("libllvmlite.so")
