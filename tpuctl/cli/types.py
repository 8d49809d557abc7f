"""What is there to choose from? Accelerator types as rows: their chips, hosts, memory, links and speed."""

from __future__ import annotations

import sys
from typing import Any

from backend.hardware import ACCELERATOR_TYPES, AcceleratorType, accelerator_type, generation
from backend.hardware.topologies import COMMON
from backend.hardware.torus import link_count
from tpuctl.cli import exit_codes
from tpuctl.cli.output import Column, Format, Resource, show_list
from tpuctl.cli.problems import Problem
from tpuctl.cli.units import bytes_text

AXES = "xyz"


def field(name: str) -> Any:
    return lambda row: str(row[name])


COLUMNS = (
    Column("TYPE", field("type")),
    Column("TOPOLOGY", field("topology")),
    Column("CHIPS", field("chips")),
    Column("CORES", field("cores")),
    Column("HOSTS", field("hosts")),
    Column("HBM", lambda row: bytes_text(row["hbmBytes"])),
    Column("WRAP", lambda row: (row["wrap"] or "-") + ", twisted" * row["twisted"]),
    Column("PEAK TFLOP/S", lambda row: f"{row['peakTflops']:,.0f}"),
    Column("DEVICES", field("devices"), wide=True),
    Column("CHIPS A HOST", field("chipsPerHost"), wide=True),
    Column("HBM A DEVICE", lambda row: bytes_text(row["hbmBytesPerDevice"]), wide=True),
    Column("LINKS", field("links"), wide=True),
    Column("DEVICE KIND", field("deviceKind"), wide=True),
)


def facts(kind: AcceleratorType) -> Resource:
    """What a slice of this kind is made of. HBM of a device is what programs may use."""
    row = kind.generation
    return {
        "type": kind.name,
        "generation": row.name,
        "topology": kind.topology,
        "chips": kind.num_chips,
        "cores": kind.num_cores,
        "devices": kind.num_devices,
        "hosts": kind.num_hosts,
        "chipsPerHost": kind.chips_per_host,
        "hbmBytes": kind.hbm_bytes,
        "hbmBytesPerDevice": row.hbm_available_bytes,
        "links": link_count(kind),
        "wrap": "".join(axis for axis, wraps in zip(AXES, kind.wrap, strict=False) if wraps),
        "twisted": kind.twisted,
        "peakTflops": kind.num_chips * row.bf16_flops_per_chip / 1e12,
        "deviceKind": row.device_kind,
    }


def wanted_generation(name: str | None) -> str | None:
    """The generation's own name. Raises Problem if there is none."""
    try:
        return None if name is None else generation(name).name
    except ValueError as error:
        raise Problem(str(error), "", exit_codes.USAGE) from None


def show_types(offered: list[Resource], of_generation: str | None, output: Format) -> None:
    """Print the API's accelerator types with what they are made of; of large families, the usual ones."""
    rows = [(row, accelerator_type(row["type"])) for row in offered if row["type"] in ACCELERATOR_TYPES]
    rows = [each for each in rows if of_generation in (None, each[1].generation.name)]
    every = output.is_data or of_generation is not None
    shown = [(row, kind) for row, kind in rows if every or kind.topology in COMMON[kind.generation.name]]
    show_list([row | facts(kind) for row, kind in shown], COLUMNS, output, "No accelerator types.")
    if len(shown) < len(rows):
        left = {kind.generation.name for _, kind in rows if (_, kind) not in shown}
        words = " or ".join(f"--generation {name}" for name in sorted(left))
        print(f"and {len(rows) - len(shown)} more shapes: tpuctl list types {words}", file=sys.stderr)
