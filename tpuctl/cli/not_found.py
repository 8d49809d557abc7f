"""What to say when a slice or job is not there: its plain name, and the nearest one that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.cli import complete
from tpuctl.cli.problems import did_you_mean

if TYPE_CHECKING:
    from tpuctl.api.errors import NotFound

KINDS = {"nodes": ("slice", complete.slices, "tpuctl list slices"), "jobs": ("job", complete.jobs, "tpuctl list jobs")}


def explain(error: NotFound) -> tuple[str, str]:
    """Message and hint for a missing resource; the control plane's own message if it is of another kind."""
    resource = next((detail["resourceName"] for detail in error.details if "resourceName" in detail), "")
    parts = resource.split("/")
    if len(parts) < 2 or parts[-2] not in KINDS:
        return error.message, ""
    kind, known, list_command = KINDS[parts[-2]]
    place = f" in {parts[3]}" if kind == "slice" else ""
    hint = did_you_mean(parts[-1], known("")) or f"`{list_command}` shows those there are"
    return f"{kind} {parts[-1]!r} was not found{place}", hint
