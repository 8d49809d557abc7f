"""What machine code does each elementwise operation become? LLVM IR for a vector of elements at a time.

Arithmetic is IEEE's, operation by operation, so that the bits are those of numpy's path. ``None`` stands for what has
no code here: the fusion is then run by numpy (backend.tensorcore.vector).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backend.compiler.program import Instruction
from backend.compiler.rounding import ROUND

KINDS = {
    "float32": "float",
    "float64": "double",
    "bool": "i1",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""LLVM's type for what is computed; bfloat16 is computed as float32."""


def element(dtype: np.dtype[Any]) -> str | None:
    """The LLVM type in which a dtype is computed."""
    return KINDS.get("float32" if dtype.name == "bfloat16" else dtype.name)


def memory(dtype: np.dtype[Any]) -> str:
    """The LLVM type of a dtype in memory."""
    return {"bool": "i8", "bfloat16": "i16"}.get(dtype.name) or KINDS[dtype.name]


@dataclass
class Emitter:
    """Collects the instructions of one loop body that works on ``width`` elements at a time."""

    width: int
    lines: list[str] = field(default_factory=list)
    intrinsics: set[str] = field(default_factory=set)
    prefix: str = "v"
    _count: int = 0

    def type(self, kind: str) -> str:
        return f"<{self.width} x {kind}>"

    def emit(self, text: str) -> str:
        self._count += 1
        name = f"%{self.prefix}{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, kind: str, value: Any) -> str:
        """A vector of one constant."""
        if kind in {"float", "double"}:
            bits = struct.pack(">d", float(np.float32(value)) if kind == "float" else float(value)).hex()
            text = f"0x{bits.upper()}"
        else:
            text = str(value)
        return "<" + ", ".join([f"{kind} {text}"] * self.width) + ">"

    def binary(self, op: str, kind: str, a: str, b: str) -> str:
        return self.emit(f"{op} {self.type(kind)} {a}, {b}")

    def compare(self, how: str, kind: str, a: str, b: str) -> str:
        return self.emit(f"{'fcmp' if kind in {'float', 'double'} else 'icmp'} {how} {self.type(kind)} {a}, {b}")

    def select(self, kind: str, where: str, a: str, b: str) -> str:
        return self.emit(f"select {self.type('i1')} {where}, {self.type(kind)} {a}, {self.type(kind)} {b}")

    def cast(self, op: str, source: str, value: str, target: str) -> str:
        return self.emit(f"{op} {self.type(source)} {value} to {self.type(target)}")

    def call(self, name: str, kind: str, *values: str) -> str:
        suffix = f"v{self.width}{'f32' if kind == 'float' else 'f64' if kind == 'double' else kind}"
        function = f"@llvm.{name}.{suffix}"
        types = ", ".join([self.type(kind)] * len(values))
        self.intrinsics.add(f"declare {self.type(kind)} {function}({types})")
        return self.emit(f"call {self.type(kind)} {function}({', '.join(f'{self.type(kind)} {v}' for v in values)})")


Code = Callable[[Emitter, str, bool, list[str]], str | None]
"""Emits one operation: LLVM type of the operands, whether they are signed, and the operands."""


def _is_float(kind: str) -> bool:
    return kind in {"float", "double"}


def _arithmetic(for_float: str, for_int: str | None, for_bool: str | None = None) -> Code:
    def code(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
        op = for_float if _is_float(kind) else for_bool if kind == "i1" else for_int
        return e.binary(op, kind, *x) if op else None

    return code


def _extreme(larger: bool) -> Code:
    """NaN wins; of equals the second is taken."""

    def code(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
        a, b = x
        if kind == "i1":
            return e.binary("or" if larger else "and", kind, a, b)
        if _is_float(kind):
            first = e.compare("ogt" if larger else "olt", kind, a, b)
            first = e.binary("or", "i1", first, e.compare("uno", kind, a, a))
        else:
            first = e.compare(("s" if signed else "u") + ("gt" if larger else "lt"), kind, a, b)
        return e.select(kind, first, a, b)

    return code


_maximum, _minimum = _extreme(True), _extreme(False)


def _clamp(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    low, value, high = x
    raised = _maximum(e, kind, signed, [value, low])
    return _minimum(e, kind, signed, [raised, high]) if raised else None


def _bits(op: str) -> Code:
    def code(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
        return None if _is_float(kind) else e.binary(op, kind, *x)

    return code


def _not(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    return None if _is_float(kind) else e.binary("xor", kind, x[0], e.constant(kind, "true" if kind == "i1" else -1))


def _negate(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    if _is_float(kind):
        return e.emit(f"fneg {e.type(kind)} {x[0]}")
    return None if kind == "i1" else e.binary("sub", kind, "zeroinitializer", x[0])


def _intrinsic(name: str) -> Code:
    def code(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
        return e.call(name, kind, *x) if _is_float(kind) else None

    return code


def _rsqrt(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    return e.binary("fdiv", kind, e.constant(kind, 1), e.call("sqrt", kind, x[0])) if _is_float(kind) else None


def _square(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    return e.binary("fmul", kind, x[0], x[0]) if _is_float(kind) else None


def _is_finite(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    if not _is_float(kind):
        return None
    return e.compare("olt", kind, e.call("fabs", kind, x[0]), e.constant(kind, float("inf")))


def _shift(op: str, arithmetic: bool = False) -> Code:
    def code(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
        if _is_float(kind) or kind == "i1":
            return None
        value, amount = x
        bits = int(kind[1:])
        inside = e.compare("ult", kind, amount, e.constant(kind, bits))
        safe = e.select(kind, inside, amount, e.constant(kind, bits - 1 if arithmetic else 0))
        shifted = e.binary(op, kind, value, safe)
        return shifted if arithmetic else e.select(kind, inside, shifted, "zeroinitializer")

    return code


# ---- float32 functions


def _fma(e: Emitter, a: str, b: str, c: float | str) -> str:
    return e.call("fma", "float", a, b, c if isinstance(c, str) else e.constant("float", c))


def _polynomial(e: Emitter, x: str, coefficients: list[float]) -> str:
    value = e.constant("float", coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fma(e, value, x, coefficient)
    return value


_EXP = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1]
_TANH = [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1]


def _exp_float(e: Emitter, x: str) -> str:
    """Cephes' expf: 2**n times a polynomial in what is left; within 2 units of the last place."""
    c = e.constant
    x = e.select("float", e.compare("ogt", "float", x, c("float", 89.0)), c("float", 89.0), x)
    x = e.select("float", e.compare("olt", "float", x, c("float", -104.0)), c("float", -104.0), x)
    whole = e.call("rint", "float", e.binary("fmul", "float", x, c("float", 1.44269504088896341)))
    rest = _fma(e, whole, c("float", -0.693359375), x)
    rest = _fma(e, whole, c("float", 2.12194440e-4), rest)
    value = _polynomial(e, rest, _EXP)
    value = _fma(e, e.binary("fmul", "float", rest, rest), value, rest)
    value = e.binary("fadd", "float", value, c("float", 1.0))
    ordered = e.compare("ord", "float", whole, whole)
    number = e.cast("fptosi", "float", e.select("float", ordered, whole, "zeroinitializer"), "i32")
    half = e.binary("ashr", "i32", number, c("i32", 1))
    for part in (half, e.binary("sub", "i32", number, half)):
        biased = e.binary("shl", "i32", e.binary("add", "i32", part, c("i32", 127)), c("i32", 23))
        value = e.binary("fmul", "float", value, e.cast("bitcast", "i32", biased, "float"))
    return value


def _exp(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    return _exp_float(e, x[0]) if kind == "float" else None


def _logistic(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    if kind != "float":
        return None
    one = e.constant("float", 1.0)
    power = _exp_float(e, e.emit(f"fneg {e.type('float')} {x[0]}"))
    return e.binary("fdiv", "float", one, e.binary("fadd", "float", power, one))


def _tanh(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    """Cephes' tanhf: a polynomial near zero, by exp further out."""
    if kind != "float":
        return None
    c = e.constant
    size = e.call("fabs", "float", x[0])
    square = e.binary("fmul", "float", x[0], x[0])
    near = _polynomial(e, square, _TANH)
    near = _fma(e, e.binary("fmul", "float", near, square), x[0], x[0])
    power = _exp_float(e, e.binary("fadd", "float", size, size))
    far = e.binary("fdiv", "float", c("float", 2.0), e.binary("fadd", "float", power, c("float", 1.0)))
    far = e.call("copysign", "float", e.binary("fsub", "float", c("float", 1.0), far), x[0])
    return e.select("float", e.compare("olt", "float", size, c("float", 0.625)), near, far)


def round_float(e: Emitter, x: str) -> str:
    """To the nearest bfloat16, ties to even; NaN to the one quiet NaN."""
    bits = e.cast("bitcast", "float", x, "i32")
    odd = e.binary("and", "i32", e.binary("lshr", "i32", bits, e.constant("i32", 16)), e.constant("i32", 1))
    carried = e.binary("add", "i32", bits, e.binary("add", "i32", odd, e.constant("i32", 0x7FFF)))
    kept = e.cast("bitcast", "i32", e.binary("and", "i32", carried, e.constant("i32", -65536)), "float")
    return e.select("float", e.compare("uno", "float", x, x), e.constant("float", float("nan")), kept)


def _round(e: Emitter, kind: str, signed: bool, x: list[str]) -> str | None:
    return round_float(e, x[0]) if kind == "float" else None


CODE: dict[str, Code] = {
    "abs": _intrinsic("fabs"),
    "add": _arithmetic("fadd", "add", "or"),
    "and": _bits("and"),
    "ceil": _intrinsic("ceil"),
    "clamp": _clamp,
    "divide": _arithmetic("fdiv", None),
    "exponential": _exp,
    "floor": _intrinsic("floor"),
    "is_finite": _is_finite,
    "logistic": _logistic,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": _arithmetic("fmul", "mul", "and"),
    "negate": _negate,
    "not": _not,
    "or": _bits("or"),
    "round_nearest_even": _intrinsic("rint"),
    "rsqrt": _rsqrt,
    "shift_left": _shift("shl"),
    "shift_right_arithmetic": _shift("ashr", arithmetic=True),
    "shift_right_logical": _shift("lshr"),
    "sqrt": _intrinsic("sqrt"),
    "square": _square,
    "subtract": _arithmetic("fsub", "sub", "xor"),
    "tanh": _tanh,
    "xor": _bits("xor"),
    ROUND: _round,
}

_ORDER = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def operation(
    e: Emitter, instruction: Instruction, sources: list[np.dtype[Any]], target: np.dtype[Any], x: list[str]
) -> str | None:
    """Emit an instruction on values of the given dtypes; the result's name, or None if there is no code for it."""
    kinds = [element(dtype) for dtype in sources]
    if any(kind is None for kind in kinds) or element(target) is None:
        return None
    kind, signed = str(kinds[-1 if instruction.op == "select" else 0]), sources[0].kind == "i"
    if instruction.op == "compare":
        return _compare(e, instruction, kind, signed, x)
    if instruction.op == "select":
        return e.select(kind, *x)
    if instruction.op == "convert":
        return _convert(e, sources[0], target, x[0])
    code = CODE.get(instruction.op)
    return code(e, kind, signed, x) if code else None


def _compare(e: Emitter, instruction: Instruction, kind: str, signed: bool, x: list[str]) -> str | None:
    if instruction.attributes["total_order"]:
        return None
    how = _ORDER[instruction.attributes["direction"]]
    if _is_float(kind):
        return e.compare(("u" if how == "ne" else "o") + how, kind, *x)
    return e.compare(how if how in {"eq", "ne"} else ("s" if signed else "u") + how, kind, *x)


def _convert(e: Emitter, source: np.dtype[Any], target: np.dtype[Any], x: str) -> str | None:
    from_kind, to_kind = str(element(source)), str(element(target))
    if target.name == "bfloat16":
        if from_kind == "double":
            return None
        wide = _convert(e, source, np.dtype(np.float32), x)
        return round_float(e, wide) if wide else None
    if from_kind == to_kind:
        return x
    if to_kind == "i1":
        return e.compare("une" if _is_float(from_kind) else "ne", from_kind, x, "zeroinitializer")
    op = _cast(from_kind, to_kind, source.kind == "i")
    return e.cast(op, from_kind, x, to_kind) if op else None


def _cast(source: str, target: str, signed: bool) -> str | None:
    """LLVM's conversion between two numeric types; none from floats to integers, which would have to saturate."""
    if _is_float(source):
        return None if not _is_float(target) else "fpext" if target == "double" else "fptrunc"
    if _is_float(target):
        return "sitofp" if signed else "uitofp"
    if int(target[1:]) < int(source[1:]):
        return "trunc"
    return "sext" if signed else "zext"
