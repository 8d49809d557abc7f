"""How does machine code multiply windows by another operand without writing them out? Register tile by register tile.

A tile has some rows, each of ``COLUMNS`` sums. For each step of what is summed over, a row's one number is multiplied
by the same vectors of columns: of six rows twelve vectors of eight sums stay in registers, and eight loads feed twelve
multiply-adds. Nothing but operands and sums touches memory. All is float32.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from backend.tensorcore.native import Function, compiled, is_able

COLUMNS = 16
MOST_ROWS = 6
FEATURES = 4
"""So many are a step of the innermost loop of ``sliding``."""
_LANES = 8
_VECTOR = f"<{_LANES} x float>"
_FMA = f"declare {_VECTOR} @llvm.fma.v8f32({_VECTOR}, {_VECTOR}, {_VECTOR})"
_ZERO = "zeroinitializer"
Sums = dict[tuple[int, int], str]
"""The name of each vector of a tile, by row and number."""


def pieces(count: int) -> list[int]:
    """``count`` rows as tiles of at most MOST_ROWS, as even as can be: of four at least no sum is waited for."""
    tiles = -(-count // MOST_ROWS)
    return [count // tiles + (tile < count % tiles) for tile in range(tiles)]


SLIDING = (
    "x w out taps count features images rows x_image x_row x_position out_image out_row out_position".split()
)  # fmt: skip
CONTRACTING = (
    "x w out taps count blocks images chunks rows positions "
    "x_image x_chunk x_row x_position w_image w_chunk w_row w_position out_tap out_block".split()
)  # fmt: skip
"""What the functions take: addresses, counts, and steps in bytes."""


def sliding(positions: int) -> Function | None:
    """For rows of ``positions`` of images, the sums of each window times a block of columns; None without LLVM.

    ``taps`` are the byte offsets of a window's positions; ``w`` is (taps, features, COLUMNS). Features and columns are
    contiguous, features a multiple of FEATURES. See SLIDING.
    """
    return compiled(_sliding(tuple(pieces(positions))), len(SLIDING)).free if is_able() else None


def contracting(features: int) -> Function | None:
    """For each tap, feature and column, what x at the tap times w comes to over all positions; None without LLVM.

    It is added to ``out``: (taps, blocks of columns, features, COLUMNS). Rows are taken a chunk at a time, for all
    taps, so that they stay in the nearest cache. Features and columns are contiguous. See CONTRACTING.
    """
    return compiled(_contracting(tuple(pieces(features))), len(CONTRACTING)).free if is_able() else None


@functools.cache
def _sliding(plan: tuple[int, ...]) -> str:
    names = ["out", "taps", "count", "features", "x_position", "out_position"]
    calls, at = [], 0
    for rows in plan:
        calls += [
            f"  %x{at}.o = mul i64 %x_position, {at}",
            f"  %x{at} = add i64 %x.r, %x{at}.o",
            f"  %out{at}.o = mul i64 %out_position, {at}",
            f"  %out{at} = add i64 %out.r, %out{at}.o",
            f"  call void @tile{rows}(i64 %x{at}, i64 %w, i64 %out{at}, {_arguments(names[1:])})",
        ]
        at += rows
    of_row = _loop("r", "%rows", {"x": ("%x.i", "%x_row"), "out": ("%out.i", "%out_row")}, calls)
    of_image = _loop("i", "%images", {"x": ("%x", "%x_image"), "out": ("%out", "%out_image")}, of_row)
    tiles = [
        _function(f"@tile{rows}", ["x", "w", *names], _sliding_tile(rows), "internal ") for rows in sorted(set(plan))
    ]
    return "\n".join([_FMA, *tiles, _function("@run", SLIDING, of_image)])


def _sliding_tile(rows: int) -> list[str]:
    """Sums of ``rows`` positions: taps outside, features inside."""
    of_taps, of_features, ends = _sums(rows, "a"), _sums(rows, "b"), _sums(rows, "n")
    inner: list[str] = []
    before = of_features
    for step in range(FEATURES):
        after = ends if step == FEATURES - 1 else _sums(rows, f"m{step}.")
        shifts = {row: f"%shift{row}" for row in range(rows)}
        inner += _multiply(f"s{step}", "%x.f", 4 * step, shifts, "%w.f", 4 * COLUMNS * step, before, after)
        before = after
    steps = {"x": ("%tapped", str(4 * FEATURES)), "w": ("%w.t", str(4 * COLUMNS * FEATURES))}
    tap = [
        "  %tap.ptr = inttoptr i64 %tap.t to ptr",
        "  %offset = load i64, ptr %tap.ptr",
        "  %tapped = add i64 %x, %offset",
        *_loop("f", "%steps", steps, inner, {of_features[key]: (of_taps[key], ends[key]) for key in ends}),
    ]
    return [
        f"  %steps = lshr i64 %features, {FEATURES.bit_length() - 1}",
        *(f"  %shift{row} = mul i64 %x_position, {row}" for row in range(rows)),
        f"  %tap_bytes = mul i64 %features, {4 * COLUMNS}",
        *_loop("t", "%count", {"tap": ("%taps", "8"), "w": ("%w", "%tap_bytes")}, tap,
               {of_taps[key]: (_ZERO, ends[key]) for key in ends}),
        *_store("%out", "%out_position", ends),
    ]  # fmt: skip


@functools.cache
def _contracting(plan: tuple[int, ...]) -> str:
    names = ["rows", "positions", "x_row", "x_position", "w_row", "w_position"]
    calls, at = [], 0
    for rows in plan:
        calls += [
            f"  %x{at} = add i64 %tapped, {4 * at}",
            f"  %out{at} = add i64 %out.b, {4 * COLUMNS * at}",
            f"  call void @tile{rows}(i64 %x{at}, i64 %w.b, i64 %out{at}, {_arguments(names)})",
        ]
        at += rows
    of_block = _loop("b", "%blocks", {"w": ("%w.c", str(4 * COLUMNS)), "out": ("%out.t", "%out_block")}, calls)
    of_tap = [
        "  %tap.ptr = inttoptr i64 %tap.t to ptr",
        "  %offset = load i64, ptr %tap.ptr",
        "  %tapped = add i64 %x.c, %offset",
        *of_block,
    ]
    of_chunk = _loop("t", "%count", {"tap": ("%taps", "8"), "out": ("%out", "%out_tap")}, of_tap)
    of_image = _loop("c", "%chunks", {"x": ("%x.i", "%x_chunk"), "w": ("%w.i", "%w_chunk")}, of_chunk)
    whole = _loop("i", "%images", {"x": ("%x", "%x_image"), "w": ("%w", "%w_image")}, of_image)
    tiles = [
        _function(f"@tile{rows}", ["x", "w", "out", *names], _contracting_tile(rows), "internal ")
        for rows in sorted(set(plan))
    ]
    return "\n".join([_FMA, *tiles, _function("@run", CONTRACTING, whole)])


def _contracting_tile(rows: int) -> list[str]:
    """Sums of ``rows`` features, added to what is there: rows outside, positions inside."""
    there, of_rows, of_positions, ends = (_sums(rows, name) for name in ("o", "a", "b", "n"))
    inner = _multiply("s", "%x.p", 0, {row: str(4 * row) for row in range(rows)}, "%w.p", 0, of_positions, ends)
    steps = {"x": ("%x.r", "%x_position"), "w": ("%w.r", "%w_position")}
    row = _loop("p", "%positions", steps, inner, {of_positions[key]: (of_rows[key], ends[key]) for key in ends})
    return [
        *_load("%out", str(4 * COLUMNS), there),
        *_loop("r", "%rows", {"x": ("%x", "%x_row"), "w": ("%w", "%w_row")}, row,
               {of_rows[key]: (there[key], ends[key]) for key in ends}),
        *_store("%out", str(4 * COLUMNS), ends),
    ]  # fmt: skip


def _sums(rows: int, name: str) -> Sums:
    return {(row, v): f"%{name}{row}.{v}" for row in range(rows) for v in range(COLUMNS // _LANES)}


def _multiply(
    name: str, x: str, x_at: int, shifts: Mapping[int, str], w: str, w_at: int, before: Sums, after: Sums
) -> list[str]:
    """One step: each row's number, ``shifts`` from x, times the columns at w, added to ``before``."""
    lines = []
    vectors = sorted({v for _, v in before})
    for v in vectors:
        lines += [
            f"  %{name}.wa{v} = add i64 {w}, {w_at + 4 * _LANES * v}",
            f"  %{name}.wp{v} = inttoptr i64 %{name}.wa{v} to ptr",
            f"  %{name}.w{v} = load {_VECTOR}, ptr %{name}.wp{v}, align 4",
        ]
    for row, shift in shifts.items():
        lines += [
            f"  %{name}.xs{row} = add i64 {x}, {shift}",
            f"  %{name}.xa{row} = add i64 %{name}.xs{row}, {x_at}",
            f"  %{name}.xp{row} = inttoptr i64 %{name}.xa{row} to ptr",
            f"  %{name}.x{row} = load float, ptr %{name}.xp{row}, align 4",
            f"  %{name}.xi{row} = insertelement {_VECTOR} poison, float %{name}.x{row}, i32 0",
            f"  %{name}.xb{row} = shufflevector {_VECTOR} %{name}.xi{row}, {_VECTOR} poison, <{_LANES} x i32> {_ZERO}",
            *(
                f"  {after[row, v]} = call {_VECTOR} @llvm.fma.v8f32({_VECTOR} %{name}.xb{row}, "
                f"{_VECTOR} %{name}.w{v}, {_VECTOR} {before[row, v]})"
                for v in vectors
            ),
        ]
    return lines


def _places(kind: str, base: str, step: str, sums: Sums) -> list[str]:
    """Pointers to the vectors of a tile whose rows are ``step`` bytes from each other."""
    lines = []
    for row, v in sums:
        lines += [
            f"  %{kind}.o{row}.{v} = mul i64 {step}, {row}",
            f"  %{kind}.s{row}.{v} = add i64 %{kind}.o{row}.{v}, {4 * _LANES * v}",
            f"  %{kind}.a{row}.{v} = add i64 {base}, %{kind}.s{row}.{v}",
            f"  %{kind}.p{row}.{v} = inttoptr i64 %{kind}.a{row}.{v} to ptr",
        ]
    return lines


def _load(base: str, step: str, sums: Sums) -> list[str]:
    loads = [f"  {name} = load {_VECTOR}, ptr %load.p{row}.{v}, align 4" for (row, v), name in sums.items()]
    return [*_places("load", base, step, sums), *loads]


def _store(base: str, step: str, sums: Sums) -> list[str]:
    stores = [f"  store {_VECTOR} {name}, ptr %store.p{row}.{v}, align 4" for (row, v), name in sums.items()]
    return [*_places("store", base, step, sums), *stores]


def _loop(
    name: str,
    count: str,
    steps: Mapping[str, tuple[str, str]],
    body: Sequence[str],
    vectors: Mapping[str, tuple[str, str]] | None = None,
) -> list[str]:
    """``count`` times, at least once. ``steps``: numbers by name, ``%name.loop`` in the body, from where and how far.

    ``vectors`` have a start, and the name under which the body leaves them.
    """
    carried = [
        f"  %{number}.{name} = phi i64 [{start}, %{name}.before], [%{number}.{name}.next, %{name}.after]"
        for number, (start, _) in steps.items()
    ]
    carried += [
        f"  {vector} = phi {_VECTOR} [{start}, %{name}.before], [{left}, %{name}.after]"
        for vector, (start, left) in (vectors or {}).items()
    ]
    return [
        f"  br label %{name}.before",
        f"{name}.before:",
        f"  br label %{name}.loop",
        f"{name}.loop:",
        f"  %{name} = phi i64 [0, %{name}.before], [%{name}.next, %{name}.after]",
        *carried,
        *body,
        f"  br label %{name}.after",
        f"{name}.after:",
        *(f"  %{number}.{name}.next = add i64 %{number}.{name}, {far}" for number, (_, far) in steps.items()),
        f"  %{name}.next = add i64 %{name}, 1",
        f"  %{name}.more = icmp slt i64 %{name}.next, {count}",
        f"  br i1 %{name}.more, label %{name}.loop, label %{name}.end",
        f"{name}.end:",
    ]


def _arguments(names: Sequence[str]) -> str:
    return ", ".join(f"i64 %{name}" for name in names)


def _function(name: str, arguments: Sequence[str], body: Sequence[str], linkage: str = "") -> str:
    return "\n".join([f"define {linkage}void {name}({_arguments(arguments)}) {{", "entry:", *body, "  ret void", "}"])
