"""How does `describe type` look? What a slice is made of, and a drawing of its torus."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from backend.hardware import ACCELERATOR_TYPES, AcceleratorType
from backend.hardware.topologies import UNTWISTED, may_twist, shapes, text
from backend.hardware.torus import link_count
from tpuctl.cli.torus_picture import torus_picture
from tpuctl.cli.types import AXES
from tpuctl.cli.units import bytes_text

MOST_SHAPES = 8


def type_view(kind: AcceleratorType, width: int) -> RenderableType:
    row = kind.generation
    per_device = f"{bytes_text(row.hbm_available_bytes)} of {bytes_text(row.hbm_bytes_per_device)} for programs"
    both_ways = 2 * row.ici_bytes_per_second_per_link / 1e9
    fields: dict[str, str] = {
        "Type": kind.name,
        "Topology": f"{kind.topology}  {_links(kind)}",
        "Chips": f"{kind.num_chips:,}, with {kind.num_cores:,} TensorCores; JAX sees {_devices(kind)}",
        "Hosts": f"{kind.num_hosts:,}, each with {kind.chips_per_host} of the chips",
        "HBM": f"{bytes_text(kind.hbm_bytes)}; of a device, {per_device}",
        "Peak": f"{kind.num_chips * row.bf16_flops_per_chip / 1e12:,.0f} TFLOP/s in bfloat16",
        "HBM bandwidth": f"{kind.num_chips * row.hbm_bytes_per_second_per_chip / 1e12:,.1f} TB/s",
        "ICI": f"{link_count(kind):,} links of {both_ways:g} GB/s, both ways together",
        "Bisection": f"{bisection(kind) / 1e12:,.2f} TB/s each way",
        "Device kind": row.device_kind,
        "Offered in": ", ".join(_zones(kind)),
    }
    if others := other_shapes(kind):
        fields["Other shapes"] = ", ".join(others)
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold", max_width=max(40, width - 18))
    for name, value in fields.items():
        table.add_row(name, Text(value, style="bold" if name == "Type" else ""))
    return Group(table, Text(), *torus_picture(kind, width))


def bisection(kind: AcceleratorType) -> float:
    """Bytes a second each way over the links that cut the slice in two halves across its longest axis."""
    axis = max(range(len(kind.shape)), key=lambda number: kind.shape[number])
    cut = kind.num_chips // kind.shape[axis] * (2 if kind.wrap[axis] else 1)
    return cut * kind.generation.ici_bytes_per_second_per_link if kind.num_chips > 1 else 0.0


def other_shapes(kind: AcceleratorType) -> list[str]:
    """Other topologies of as many chips, untwisted ones too."""
    same = sorted(shape for shape in shapes(kind.generation) if math.prod(shape) == kind.num_chips)
    found = [
        text(shape) + twist for shape in same for twist in ("", UNTWISTED)[: 1 + may_twist(kind.generation, shape)]
    ]
    found.remove(kind.topology)
    known = ACCELERATOR_TYPES.get(kind.name)
    usual = [f"{known.topology} (default)"] if known and known.topology in found else []
    found = usual + [shape for shape in found if not known or shape != known.topology]
    return found[:MOST_SHAPES] + ["..."] * (len(found) > MOST_SHAPES)


def _links(kind: AcceleratorType) -> str:
    """``a torus``, ``a mesh: no axis wraps``, ``y wraps``."""
    wraps = [axis for axis, wrapped in zip(AXES, kind.wrap, strict=False) if wrapped]
    if kind.num_chips == 1:
        return "a single chip"
    if not wraps:
        return "a mesh: no axis wraps around"
    if len(wraps) < len(kind.shape):
        return f"a cylinder: {' and '.join(wraps)} wraps around"
    return f"a {len(kind.shape)}D {'twisted ' * kind.twisted}torus: every axis wraps around"


def _devices(kind: AcceleratorType) -> str:
    what = (
        "a device a core" if kind.generation.devices_per_chip == kind.generation.cores_per_chip else "a device a chip"
    )
    return f"{kind.num_devices:,}, {what}"


def _zones(kind: AcceleratorType) -> list[str]:
    from tpuctl.control.catalogue import zones_of

    return zones_of(kind)
