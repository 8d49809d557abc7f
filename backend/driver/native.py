"""What runs without Python? Destructors, which jaxlib calls while an exception is pending, and calls at exit.

And what is asked at every launch and never changes: facts, which lie in an object's cell.

A destructor only pushes its object's cell on a list, without a lock; ``exhume`` takes the list. A cell is eight words:
function table (for objects that C++ looks into), link to the next dead cell, immortality, unused, four facts.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding

from backend.driver.structs import ARGUMENTS

CELL_WORDS = 8
FUNCTIONS, LINK, IMMORTAL, FIRST_FACT = 0, 1, 2, 4
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

_CODE = """
@graveyard = internal global ptr null

define void @bury(ptr %cell) {
entry:
  %none = icmp eq ptr %cell, null
  br i1 %none, label %done, label %check
check:
  %immortal.address = getelementptr i8, ptr %cell, i64 16
  %immortal = load i64, ptr %immortal.address
  %mortal = icmp eq i64 %immortal, 0
  br i1 %mortal, label %push, label %done
push:
  %link = getelementptr i8, ptr %cell, i64 8
  br label %retry
retry:
  %head = load atomic ptr, ptr @graveyard monotonic, align 8
  store ptr %head, ptr %link
  %swap = cmpxchg ptr @graveyard, ptr %head, ptr %cell release monotonic
  %swapped = extractvalue { ptr, i1 } %swap, 1
  br i1 %swapped, label %done, label %retry
done:
  ret void
}

define ptr @destroy(ptr %arguments) {
  %field = getelementptr i8, ptr %arguments, i64 16
  %cell = load ptr, ptr %field
  call void @bury(ptr %cell)
  ret ptr null
}

define ptr @exhume() {
  %head = atomicrmw xchg ptr @graveyard, ptr null acquire
  ret ptr %head
}

define ptr @nothing(ptr %arguments) {
  ret ptr null
}
"""


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
    code = "\n".join([_CODE, *(_teller(name, fields) for name, fields in FACTS.items())])
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
