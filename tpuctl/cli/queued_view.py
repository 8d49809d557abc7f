"""How `describe queued-resource` looks."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.cli.output import STATE_COLOURS
from tpuctl.cli.queued import asked_for, state, tier
from tpuctl.cli.units import age_text


def queued_view(found: dict[str, Any]) -> RenderableType:
    """``found`` is the answer of /tpuctl/v1/…/queuedResources/N."""
    row, waits = found["queuedResource"], found.get("waits")
    fields = Table.grid(padding=(0, 2))
    fields.add_column(style="dim", no_wrap=True)
    fields.add_column()

    def field(name: str, value: RenderableType | str) -> None:
        fields.add_row(name, value)

    now = state(row)
    field("Name", Text(row["name"].rpartition("/")[2], style="bold"))
    field("State", Text(now, style=STATE_COLOURS.get(now, "")))
    field("Asks for", f"{asked_for(row)}, {tier(row)}")
    field("Zone", row["name"].split("/")[3])
    nodes = [spec.get("nodeId") for spec in (row.get("tpu") or {}).get("nodeSpec") or [] if spec.get("nodeId")]
    if nodes:
        field("Slices", ", ".join(nodes))
    if waits:
        field("Position", f"{waits['position']} of those who wait for room")
        field("Waits because", waits["reason"])
        start = waits.get("expectedStart")
        field("Expected start", start or "not known: what is in the way has no known end")
    error = ((row.get("state") or {}).get("failedData") or {}).get("error")
    if error:
        field("Error", Text(error["message"], style="red"))
    events = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for heading in ("AGE", "CHANGE", ""):
        events.add_column(heading, no_wrap=heading != "")
    for event in found.get("events") or []:
        events.add_row(age_text(event["time"]), event["change"], event.get("message") or "")
    return Group(fields, "", events)
