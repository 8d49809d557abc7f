"""How `status pods`, `describe pod` and `simulate placement` look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.cli.bars import bar, share
from tpuctl.cli.pod_picture import COLOURS, legend, pod_picture
from tpuctl.cli.units import UNKNOWN, share_text

Resource = dict[str, Any]
ROOMY = 100


def pods_view(pods: Sequence[Resource], width: int, wide: bool = False) -> RenderableType:
    """A line a pod; those with nothing in them only if ``wide``."""
    shown = [pod for pod in pods if wide or is_used(pod)]
    if not shown:
        return Text(f"No slices in any of {len(pods)} pods. tpuctl status pods -o wide shows them all.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for heading in ("POD", "SHAPE", "IN USE"):
        table.add_column(heading, no_wrap=True)
    for heading in ("CHIPS", "FREE", "LARGEST", "SLICES"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "LARGEST" else "right")
    table.add_column("OTHER", no_wrap=True)
    for pod in shown:
        part = share(pod["inUse"], pod["chips"])
        used = bar(part)
        used.append(f" {share_text(part)}")
        table.add_row(
            pod["name"],
            pod["shape"],
            used,
            str(pod["chips"]),
            str(pod["free"]),
            pod.get("largestFree") or "none",
            str(len({(one["project"], one["name"]) for one in pod["slices"]})),
            _other(pod),
        )
    parts: list[RenderableType] = [table]
    if len(shown) < len(pods):
        parts.append(Text(f"and {len(pods) - len(shown)} empty pods: tpuctl status pods -o wide", style="dim"))
    parts.append(Text("tpuctl describe pod POD draws one", style="dim"))
    return Group(*parts)


def is_used(pod: Resource) -> bool:
    return bool(pod["slices"] or pod["broken"] or pod["draining"] or pod["reserved"] or pod["spare"])


def pod_view(pod: Resource, width: int) -> RenderableType:
    """One pod: its numbers, its picture, its slices."""
    part = share(pod["inUse"], pod["chips"])
    used = bar(part)
    used.append(f" {pod['inUse']} of {pod['chips']} chips in use ({share_text(part)}), {pod['free']} free")
    if pod.get("largestFree"):
        used.append(f", largest free box {pod['largestFree']}")
    head = Text.assemble((pod["name"], "bold"), f"  {pod['generation']} pod of {pod['shape']} in {pod['zone']}")
    parts: list[RenderableType] = [head, used]
    if other := _other(pod):
        parts.append(Text(other))
    parts += ["", *pod_picture(pod, width), "", legend(pod), ""]
    if pod["slices"]:
        parts.append(_slices(pod["slices"]))
    return Group(*parts)


def placement_view(found: Resource) -> RenderableType:
    """Where slices would go, or why they would not."""
    text = found["type"] if found["numSlices"] == 1 else f"{found['numSlices']} x {found['type']}"
    if found["parts"]:
        lines = [Text.assemble(("● ", "green"), f"{text} fits in {found['zone']} now:")]
        for part in found["parts"]:
            at = f"at {part['origin']}" if part.get("origin") else "in cubes that switches join"
            lines.append(Text(f"  {part['size']} {at} of {part['pod']}"))
        return Group(*lines)
    parts: list[RenderableType] = [
        Text.assemble(("● ", "red"), f"{text} does not fit in {found['zone']} now; it needs {found['needed']} chips")
    ]
    if not found["obstacles"]:
        parts.append(Text(f"  no pod of {found['zone']} has such chips"))
    for one in found["obstacles"]:
        parts.append(Text.assemble("  ", (one["pod"], "bold"), f": {_why(one)}"))
        names = [name.rpartition("/")[2] for name in one["inTheWay"]]
        if one.get("withheld"):
            names.append(f"{one['withheld']} chips that are broken, reserved or spare")
        if names and not one["never"]:
            parts.append(Text(f"    least in the way: {_some(names)}"))
        if one["moves"]:
            moves = [f"{move['name']} to {move['size']}@{move.get('origin') or 'other cubes'}" for move in one["moves"]]
            parts.append(Text(f"    would fit if moved: {_some(moves)}"))
    return Group(*parts)


def _why(one: Resource) -> str:
    if one["never"]:
        return "it is too small, even empty"
    largest = one.get("largestFree")
    return f"{one['free']} chips are free, " + (f"the largest free box is {largest}" if largest else "no box is")


def _some(names: Sequence[str], most: int = 6) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _other(pod: Resource) -> str:
    """What else there is to say: numbers of chips that are not to be had."""
    counts = [f"{pod[name]} {name}" for name in ("broken", "reserved", "spare") if pod[name]]
    return ", ".join((["under maintenance"] if pod["draining"] else []) + counts)


def _slices(slices: Sequence[Resource]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for heading in ("", "SLICE", "PROJECT", "TYPE", "STATE", "CHIPS", "SIZE", "AT"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "CHIPS" else "left")
    for number, one in enumerate(slices):
        table.add_row(
            Text(one["letter"], style=COLOURS[number % len(COLOURS)]),
            one["name"],
            one["project"],
            one["type"] + (" spot" if one["spot"] else ""),
            one["state"],
            str(one["chips"]),
            one["size"],
            one.get("origin") or UNKNOWN,
        )
    return table
