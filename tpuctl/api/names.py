"""How resources are named: ids, full names, and what a valid id looks like."""

from __future__ import annotations

import os
import re

from tpuctl.api.errors import InvalidArgument

DEFAULT_PROJECT = "local"
DEFAULT_ZONE = "europe-west4-a"

_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_QUEUED_ID = re.compile(r"[A-Za-z0-9_.~+%-]{1,63}")
_PROJECT = re.compile(r"[a-z0-9]([-a-z0-9:.]{0,61}[a-z0-9])?")


def default_project() -> str:
    return os.environ.get("TPUCTL_PROJECT") or DEFAULT_PROJECT


def default_zone() -> str:
    return os.environ.get("TPUCTL_ZONE") or DEFAULT_ZONE


def check_id(kind: str, name: str) -> str:
    """``name`` if it is a valid id of a node or job (the Compute Engine rule); raises InvalidArgument."""
    if _ID.fullmatch(name):
        return name
    rule = "1 to 63 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen"
    raise InvalidArgument.of_fields({f"{kind} name {name!r} is not valid": f"use {rule}"})


def check_queued_id(name: str) -> str:
    """``name`` if it is a valid id of a queued resource; raises InvalidArgument."""
    if _QUEUED_ID.fullmatch(name):
        return name
    raise InvalidArgument.of_fields(
        {f"queued resource name {name!r} is not valid": "use 1 to 63 of A-Z a-z 0-9 _.~+%-"}
    )


def check_project(project: str) -> str:
    """``project`` if it is a valid project id or number; raises InvalidArgument."""
    if _PROJECT.fullmatch(project):
        return project
    raise InvalidArgument(f"project {project!r} is not valid: use a project id such as {DEFAULT_PROJECT!r}")


def location_name(project: str, zone: str) -> str:
    return f"projects/{project}/locations/{zone}"


def node_name(project: str, zone: str, node: str) -> str:
    return f"{location_name(project, zone)}/nodes/{node}"


def operation_name(project: str, zone: str, operation: str) -> str:
    return f"{location_name(project, zone)}/operations/{operation}"


def accelerator_type_name(project: str, zone: str, accelerator_type: str) -> str:
    return f"{location_name(project, zone)}/acceleratorTypes/{accelerator_type}"


def queued_name(project: str, zone: str, queued: str) -> str:
    return f"{location_name(project, zone)}/queuedResources/{queued}"


def runtime_version_name(project: str, zone: str, version: str) -> str:
    return f"{location_name(project, zone)}/runtimeVersions/{version}"


def tensorflow_version_name(project: str, zone: str, version: str) -> str:
    return f"{location_name(project, zone)}/tensorflowVersions/{version}"


def job_name(project: str, job: str) -> str:
    return f"projects/{project}/jobs/{job}"


def last(full_name: str) -> str:
    """The id at the end of a full name: ``projects/p/locations/z/nodes/n`` is node ``n``."""
    return full_name.rsplit("/", 1)[-1]


def zone_of(full_name: str) -> str:
    """The zone in a full name of a zonal resource."""
    return full_name.split("/")[3]


def shape_text(accelerator_type: str, num_slices: int = 1) -> str:
    """What people call slices that are joined over the data-centre network: ``2 x v3-8``."""
    return f"{num_slices} x {accelerator_type}" if num_slices > 1 else accelerator_type


def worker_label(number: int) -> str:
    """What begins the lines of one of several workers where they are shown together: ``[worker 3]`` and a blank."""
    return f"[worker {number}]"
