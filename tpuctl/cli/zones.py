"""In which zone? Where neither --zone nor TPUCTL_ZONE says: that which has the slice, or which offers the type."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.hardware import AcceleratorType


def of_slice(name: str, zone: str | None) -> str | None:
    """The zone of the only slice of this name; ``zone`` if that is given, or none or several have the name."""
    if zone or os.environ.get("TPUCTL_ZONE"):
        return zone
    from tpuctl.api.names import default_project
    from tpuctl.cli.reader import read

    nodes = read(f"/v2/projects/{default_project()}/locations/-/nodes").get("nodes") or []
    places = [node["name"].split("/") for node in nodes]
    zones = [place[3] for place in places if place[-1] == name]
    return zones[0] if len(zones) == 1 else zone


def of_kind(kind: AcceleratorType, zone: str | None) -> str | None:
    """A zone that offers such a slice, and that is said; ``zone`` if that is given or the default one will do."""
    from tpuctl.control.catalogue import zones_of

    return _one_of(zones_of(kind), kind.name, zone)


def of_generation(generation: str, zone: str | None) -> str | None:
    """The same, of one that has pods of a generation."""
    from tpuctl.control.catalogue import ZONES, offers_pods

    return _one_of([one for one in ZONES if offers_pods(one, generation)], generation, zone)


def _one_of(offering: Sequence[str], what: str, zone: str | None) -> str | None:
    from tpuctl.api.names import default_zone
    from tpuctl.cli import terminal

    if zone or os.environ.get("TPUCTL_ZONE") or not offering or default_zone() in offering:
        return zone
    terminal.say(f"In zone {offering[0]}: {default_zone()} has no {what}")
    return offering[0]
