"""What is said of a program that doesn't fit into HBM? The TPU compiler's sentence, and the largest buffers.

The sentence is that of libtpu 0.0.42; the list has the form in which TPU compilers show it (tensorflow issue 30803).
"""

from __future__ import annotations

from collections.abc import Sequence

from backend.compiler.memory import Buffer
from backend.compiler.tiles import layout_of, xla_name

_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_LINE = "=" * 26


def size_text(size_bytes: int) -> str:
    """A size as the TPU compiler prints it: 1.50G, 12.00M, 512B."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f}{name}"
    return f"{size_bytes}B"


def out_of_memory(needed_bytes: int, available_bytes: int, largest: Sequence[Buffer]) -> str:
    """The message. What it calls HLO temporaries is everything: libtpu counts arguments and outputs in."""
    head = (
        f"Ran out of memory on HBM, the total memory required for HLO temporaries ({size_text(needed_bytes)}) "
        f"exceeds available HBM ({size_text(available_bytes)})."
    )
    if not largest:
        return head
    rows = [line for number, buffer in enumerate(largest, 1) for line in _row(number, buffer)]
    return "\n".join([head, "", "Largest program allocations in hbm:", "", *rows])


def _row(number: int, buffer: Buffer) -> list[str]:
    padded, unpadded = buffer.hbm_bytes, buffer.kind.nbytes
    dims = ",".join(map(str, buffer.kind.shape))
    file, _, line = buffer.source.rpartition(":")
    source = f' source_file="{file}" source_line={line}' if file else ""
    extra = f"     Extra memory due to padding: {size_text(padded - unpadded)} ({padded / unpadded:.1f}x expansion)"
    return [
        f"  {number}. Size: {size_text(padded)}",
        f'     Operator: op_type="{buffer.op}"{source}',
        f"     Shape: {xla_name(buffer.kind.dtype)}[{dims}]{layout_of(buffer.kind)}",
        f"     Unpadded size: {size_text(unpadded)}",
        *([extra] if padded > unpadded else []),
        f"     Allocation type: {buffer.role}",
        f"     {_LINE}",
        "",
    ]
