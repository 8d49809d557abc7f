"""Names for the shell's Tab: asked of the running control plane, quickly, and without a word when there is none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpuctl.zoo.catalogue import MODELS

TIMEOUT_SECONDS = 0.15


def slices(incomplete: str) -> list[str]:
    return _starting(incomplete, (name for name, _ in slices_with_zones()))


def slices_with_zones() -> list[tuple[str, str]]:
    """Names of all slices, each with its zone."""
    nodes = (node["name"].split("/") for node in _ask("/locations/-/nodes", "nodes", version="v2"))
    return [(parts[-1], parts[3]) for parts in nodes]


def jobs(incomplete: str) -> list[str]:
    return _starting(incomplete, (job["name"] for job in _ask("/jobs", "jobs")))


def running_jobs(incomplete: str) -> list[str]:
    live = (job["name"] for job in _ask("/jobs", "jobs") if job["state"] in {"QUEUED", "RUNNING"})
    return _starting(incomplete, live)


def types(incomplete: str) -> list[str]:
    from tpuctl.api.names import default_zone

    known = _ask(f"/locations/{default_zone()}/acceleratorTypes", "acceleratorTypes", version="v2")
    return _starting(incomplete, (row["type"] for row in known))


def every_type(incomplete: str) -> list[str]:
    """Types of all zones; needs no control plane."""
    from backend.hardware.accelerator_types import ACCELERATOR_TYPES

    return _starting(incomplete, ACCELERATOR_TYPES)


def generations(incomplete: str) -> list[str]:
    from backend.hardware.generations import GENERATIONS

    return _starting(incomplete, GENERATIONS)


def places(incomplete: str) -> list[str]:
    """Zones and regions."""
    from tpuctl.control.catalogue import ZONES

    return _starting(incomplete, sorted({*ZONES, *(zone.rpartition("-")[0] for zone in ZONES)}))


def models(incomplete: str) -> list[str]:
    return _starting(incomplete, MODELS)


def api_faults(incomplete: str) -> list[str]:
    return _starting(incomplete, (fault["id"] for fault in _read("/tpuctl/v1/faults", "faults")))


def tokens(incomplete: str) -> list[str]:
    return _starting(incomplete, (token["id"] for token in _read("/tpuctl/v1/tokens", "tokens")))


SOURCES = {
    source.__name__: source
    for source in (slices, jobs, running_jobs, types, every_type, generations, models, api_faults, tokens)
}


def _ask(path: str, field: str, version: str = "tpuctl/v1") -> list[Any]:
    from tpuctl.api.names import default_project

    return _read(f"/{version}/projects/{default_project()}{path}", field)


def _read(path: str, field: str) -> list[Any]:
    from tpuctl.api.errors import ApiError
    from tpuctl.cli import reader

    try:
        return list(reader.get(path, timeout_seconds=TIMEOUT_SECONDS).get(field, []))
    except (ApiError, reader.NotRunning):
        return []


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
