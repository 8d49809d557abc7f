"""How does the vector unit run a fusion in one pass? As machine code that LLVM makes when the program is loaded.

One function does all operations of a fusion for a vector of elements before it goes on to the next, so that nothing but
operands and results touches memory, and no thread waits for Python's lock. A fusion with an operation that has no code
(backend.tensorcore.vector_code) is run by numpy instead, block by block.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.compiler.program import Computation
from backend.tensorcore.vector_code import Emitter, element, memory, operation, round_float

try:
    from llvmlite import binding
except ModuleNotFoundError:  # the base install runs no programs
    binding = None

WIDTH = 16
DIMS = 4
"""Dimensions of a block; the last is the one that vectors run along."""
CONTIGUOUS, REPEATED, STRIDED = "contiguous", "repeated", "strided"

Function = Callable[..., None]


@dataclass(frozen=True)
class Native:
    """A function of addresses and counts, without and with Python's lock.

    That of a fusion takes bases, offsets, strides and the sizes of a block.
    """

    free: Function
    held: Function


def compile_fusion(region: Computation, walks: tuple[str, ...]) -> Native | None:
    """Machine code for a fusion's region, or None. ``walks`` says how each operand lies along the last dimension."""
    text = _module(region, walks) if is_able() else None
    return compiled(text, 3 + DIMS) if text is not None else None


def _module(region: Computation, walks: tuple[str, ...]) -> str | None:
    vector, single = Emitter(WIDTH, prefix="v"), Emitter(1, prefix="s")
    for emitter in (vector, single):
        if not _body(emitter, region, walks):
            return None
    count = len(region.parameters) + len(region.returns)
    declarations = "\n".join(sorted(vector.intrinsics | single.intrinsics))
    parts = [_LOOPS_HEAD, _pointers(count), _LOOPS_MIDDLE, _join(vector), _LOOPS_TAIL, _join(single), _LOOPS_END]
    return "\n".join([declarations, *parts])


def _join(emitter: Emitter) -> str:
    return "\n".join(emitter.lines) + "\n"


_LOOPS_HEAD = """
define void @run(ptr %bases, ptr %offsets, ptr %strides, i64 %n0, i64 %n1, i64 %n2, i64 %n3) {
entry:
  %whole = and i64 %n3, -WIDTH
  br label %loop0
loop0:
  %i0 = phi i64 [0, %entry], [%i0.next, %end0]
  br label %loop1
loop1:
  %i1 = phi i64 [0, %loop0], [%i1.next, %end1]
  br label %loop2
loop2:
  %i2 = phi i64 [0, %loop1], [%i2.next, %end2]
""".replace("WIDTH", str(WIDTH))

_LOOPS_MIDDLE = """
  %some = icmp sgt i64 %whole, 0
  br i1 %some, label %vector, label %rest
vector:
  %j.v = phi i64 [0, %loop2], [%j.v.next, %vector]
"""

_LOOPS_TAIL = """
  %j.v.next = add i64 %j.v, WIDTH
  %more = icmp slt i64 %j.v.next, %whole
  br i1 %more, label %vector, label %rest
rest:
  %left = icmp slt i64 %whole, %n3
  br i1 %left, label %single, label %end2
single:
  %j.s = phi i64 [%whole, %rest], [%j.s.next, %single]
""".replace("WIDTH", str(WIDTH))

_LOOPS_END = """
  %j.s.next = add i64 %j.s, 1
  %again = icmp slt i64 %j.s.next, %n3
  br i1 %again, label %single, label %end2
end2:
  %i2.next = add i64 %i2, 1
  %more2 = icmp slt i64 %i2.next, %n2
  br i1 %more2, label %loop2, label %end1
end1:
  %i1.next = add i64 %i1, 1
  %more1 = icmp slt i64 %i1.next, %n1
  br i1 %more1, label %loop1, label %end0
end0:
  %i0.next = add i64 %i0, 1
  %more0 = icmp slt i64 %i0.next, %n0
  br i1 %more0, label %loop0, label %done
done:
  ret void
}
"""


def _pointers(count: int) -> str:
    """Where each operand's and result's row begins, and its stride along the row."""
    lines = []
    for n in range(count):
        lines += [
            f"  %base.at{n} = getelementptr i64, ptr %bases, i64 {n}",
            f"  %base{n} = load i64, ptr %base.at{n}",
            f"  %offset.at{n} = getelementptr i64, ptr %offsets, i64 {n}",
            f"  %offset{n} = load i64, ptr %offset.at{n}",
            f"  %sum{n}.0 = add i64 %base{n}, %offset{n}",
        ]
        for d in range(DIMS):
            lines += [
                f"  %stride.at{n}.{d} = getelementptr i64, ptr %strides, i64 {n * DIMS + d}",
                f"  %stride{n}.{d} = load i64, ptr %stride.at{n}.{d}",
            ]
            if d < DIMS - 1:
                lines += [
                    f"  %way{n}.{d} = mul i64 %stride{n}.{d}, %i{d}",
                    f"  %sum{n}.{d + 1} = add i64 %sum{n}.{d}, %way{n}.{d}",
                ]
        lines.append(f"  %row{n} = inttoptr i64 %sum{n}.{DIMS - 1} to ptr")
    return "\n".join(lines)


def _body(e: Emitter, region: Computation, walks: tuple[str, ...]) -> bool:
    """Emit loads, operations and stores of one vector; False if something has no code."""
    if any(element(kind.dtype) is None for kind in region.types):
        return False
    values: dict[int, str] = {}
    for number, (value, walk) in enumerate(zip(region.parameters, walks, strict=True)):
        values[value] = _load(e, number, region.types[value].dtype, walk)
    for instruction in region.instructions:
        result = operation(
            e,
            instruction,
            [region.types[value].dtype for value in instruction.operands],
            region.types[instruction.results[0]].dtype,
            [values[value] for value in instruction.operands],
        )
        if result is None:
            return False
        values[instruction.results[0]] = result
    for number, value in enumerate(region.returns, len(region.parameters)):
        _store(e, number, region.types[value].dtype, values[value])
    return True


def _load(e: Emitter, number: int, dtype: np.dtype[Any], walk: str) -> str:
    kind, size = memory(dtype), dtype.itemsize
    if walk == CONTIGUOUS:
        place = e.emit(f"getelementptr {kind}, ptr %row{number}, i64 %j.{e.prefix}")
        loaded = e.emit(f"load {e.type(kind)}, ptr {place}, align {size}")
    elif walk == REPEATED:
        loaded = _splat(e, kind, e.emit(f"load {kind}, ptr %row{number}, align {size}"))
    else:
        loaded = "poison"
        start = e.emit(f"mul i64 %j.{e.prefix}, %stride{number}.{DIMS - 1}")
        for lane in range(e.width):
            way = e.emit(f"getelementptr i8, ptr %row{number}, i64 {start}")
            item = e.emit(f"load {kind}, ptr {way}, align {size}")
            loaded = e.emit(f"insertelement {e.type(kind)} {loaded}, {kind} {item}, i32 {lane}")
            start = e.emit(f"add i64 {start}, %stride{number}.{DIMS - 1}")
    if dtype.kind == "b":
        return e.compare("ne", "i8", loaded, "zeroinitializer")
    if dtype.name == "bfloat16":
        wide = e.binary("shl", "i32", e.cast("zext", "i16", loaded, "i32"), e.constant("i32", 16))
        return e.cast("bitcast", "i32", wide, "float")
    return loaded


def _splat(e: Emitter, kind: str, item: str) -> str:
    one = e.emit(f"insertelement {e.type(kind)} poison, {kind} {item}, i32 0")
    return e.emit(f"shufflevector {e.type(kind)} {one}, {e.type(kind)} poison, <{e.width} x i32> zeroinitializer")


def _store(e: Emitter, number: int, dtype: np.dtype[Any], value: str) -> None:
    kind = memory(dtype)
    if dtype.kind == "b":
        value = e.cast("zext", "i1", value, "i8")
    elif dtype.name == "bfloat16":
        bits = e.cast("bitcast", "float", round_float(e, value), "i32")
        value = e.cast("trunc", "i32", e.binary("lshr", "i32", bits, e.constant("i32", 16)), "i16")
    place = e.emit(f"getelementptr {kind}, ptr %row{number}, i64 %j.{e.prefix}")
    e.lines.append(f"  store {e.type(kind)} {value}, ptr {place}, align {dtype.itemsize}")


# ---- LLVM

_lock = threading.Lock()
_engines: list[Any] = []


@functools.cache
def _host() -> tuple[Any, str, str]:
    """LLVM's target for this processor, its name and its features."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple(), binding.get_host_cpu_name(), features


@functools.cache
def is_able() -> bool:
    """Whether there is LLVM, and the processor multiplies and adds in one operation, as the code takes for granted."""
    if binding is None:
        return False
    features = binding.get_host_cpu_features()
    return bool(features.get("fma") or features.get("neon"))


@functools.cache
def compiled(text: str, arguments: int) -> Native:
    """The function ``run`` of a module, which takes so many 64-bit numbers."""
    with _lock:
        target, cpu, features = _host()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=2)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
        engine.finalize_object()
        _engines.append(engine)  # functions live as long as their engine
        address = engine.get_function_address("run")
    types = [ctypes.c_int64] * arguments
    return Native(ctypes.CFUNCTYPE(None, *types)(address), ctypes.PYFUNCTYPE(None, *types)(address))
