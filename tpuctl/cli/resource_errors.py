"""Errors about a named slice or job, in plain words: its short name, and the nearest that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli import complete
from tpuctl.cli.problems import did_you_mean

if TYPE_CHECKING:
    from tpuctl.api.errors import ApiError


class Named(NamedTuple):
    kind: str
    name: str
    zone: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


def explain_missing(error: ApiError) -> tuple[str, str]:
    """Message and hint for what was not found; the control plane's own message if it is neither slice nor job."""
    resource = _resource(error)
    if resource is None:
        return error.message, ""
    if resource.kind == "job":
        hint = did_you_mean(resource.name, complete.jobs("")) or "`tpuctl list jobs` shows those there are"
        return f"{resource} was not found", hint
    zones = dict(complete.slices_with_zones())
    hint = did_you_mean(resource.name, zones) or "`tpuctl list slices` shows those there are"
    if resource.name in zones:
        hint = f"there is one in {zones[resource.name]}: pass --zone {zones[resource.name]}"
    return f"{resource} was not found in {resource.zone}", hint


def explain_taken(error: ApiError) -> tuple[str, str]:
    """Message and hint for a name that is taken."""
    resource = _resource(error)
    if resource is None:
        return error.message, ""
    place = f" in {resource.zone}" if resource.zone else ""
    hint = f"choose another name, or delete it: tpuctl delete slice {resource.name}" if resource.zone else ""
    return f"{resource} already exists{place}", hint or "choose another name"


def explain_exhausted(error: ApiError) -> tuple[str, str]:
    """Message and hint for what there is no quota or no capacity for."""
    message, _, hint = error.message.partition("\n")
    if any(detail.get("@type", "").endswith("QuotaFailure") for detail in error.details):
        return message, "see `tpuctl quota list`; `tpuctl quota request` asks an admin for more"
    if "no more capacity" in message:
        return message, "see `tpuctl status pods`; `tpuctl create queued-resource` waits until there is room"
    return message, hint


def _resource(error: ApiError) -> Named | None:
    """The slice or job that an error's google.rpc.ResourceInfo names."""
    full_name = next((detail["resourceName"] for detail in error.details if "resourceName" in detail), "")
    match full_name.split("/"):
        case ["projects", _, "locations", zone, "nodes", name]:
            return Named("slice", name, zone)
        case ["projects", _, "jobs", name]:
            return Named("job", name)
    return None
