"""What must run without Python? Destructors, which jaxlib calls while an exception is pending, and calls at exit.

A destructor only pushes its object's cell on a list, without a lock; ``exhume`` takes the list. A cell is four words:
function table (for objects that C++ looks into), link to the next dead cell, immortality, unused.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding

CELL_BYTES = 32
LINK_OFFSET = 8
IMMORTAL_OFFSET = 16

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


def _compile() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_CODE), machine)
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

exhume = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_engine.get_function_address("exhume"))
"""Take the list of dead cells: the address of its first one, or None."""
