"""Stored rows as the API's resources."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from backend.hardware import AcceleratorType
from backend.host.address import Address, Block
from tpuctl.api.jobs import Job
from tpuctl.api.names import node_name
from tpuctl.api.nodes import Node, NodeJson, NodeState
from tpuctl.api.operations import Operation, OperationMetadata, Status
from tpuctl.control import catalogue
from tpuctl.control.hosted import kind_of
from tpuctl.control.node_faults import node_health, upcoming
from tpuctl.store import JobRow, NodeRow, OperationRow

NODE_TYPE = "type.googleapis.com/google.cloud.tpu.v2.Node"
QUEUED_TYPE = "type.googleapis.com/google.cloud.tpu.v2.QueuedResource"
EMPTY_TYPE = "type.googleapis.com/google.protobuf.Empty"
MAX_MEMBERS = 64
"""More nodes are not made of one slice; each has an id of its own."""


def moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def node_views(row: NodeRow, now: float) -> list[Node]:
    """The nodes that a slice is to the Cloud TPU API: one, or one for each of several that were queued for."""
    return [node_view(row, now, member) for member in members(row)]


def members(row: NodeRow) -> list[int] | list[None]:
    """The numbers of its nodes, if its slices are nodes of their own."""
    return [None] if row.node_prefix is None else list(range(row.num_slices))


def node_view(row: NodeRow, now: float, member: int | None = None) -> Node:
    """The node with the fields of all versions. It has an endpoint a host once it has been READY.

    ``member`` is the number of the one to show of a multislice whose slices are nodes of their own.
    """
    return Node.model_validate(node_json(row, now, member))


def node_json(row: NodeRow, now: float, member: int | None = None) -> NodeJson:
    """The same as JSON: what is stored is JSON already, so that long lists need no models.

    A row that has been shown and has not changed since looks the same, unless faults strike at their time.
    """
    key = (row.uid, member)
    known = _seen.get(key)
    if known is not None and known[0] == row and not row.faults:
        return known[1]
    made = NodeJson(_node_json(row, now, member))
    if len(_seen) >= MOST_SEEN:
        _seen.clear()
    _seen[key] = (row, made)
    return made


_seen: dict[tuple[str, int | None], tuple[NodeRow, NodeJson]] = {}
MOST_SEEN = 20_000


def _node_json(row: NodeRow, now: float, member: int | None) -> dict[str, Any]:
    kind = kind_of(row)
    hosts = Block(Address(row.host, row.port), kind.num_hosts * row.num_slices).hosts()
    name, number = row.full_name, int(row.uid, 16)
    if member is not None:
        each = len(hosts) // row.num_slices
        hosts = hosts[member * each : (member + 1) * each]
        name = node_name(row.project, row.zone, f"{row.node_prefix}-{member}")
        number = number * MAX_MEMBERS + member
    health, description = node_health(row, now)
    made = datetime.fromtimestamp(row.create_time, UTC)
    shown = row.spec | {
        "name": name,
        "id": str(number),
        "acceleratorType": row.accelerator_type,
        "acceleratorConfig": _config(kind),
        "state": row.state.value,
        "health": None if health is None else health.value,
        "healthDescription": description,
        "networkEndpoints": [_endpoint(host, row) for host in hosts],
        "createTime": made.isoformat().replace("+00:00", "Z"),
        "apiVersion": row.api_version,
        "queuedResource": row.queued_resource,
        "multisliceNode": True if row.num_slices > 1 else None,
        "upcomingMaintenance": upcoming(row, now) if row.faults else None,
    }
    if row.state is NodeState.CREATING:
        del shown["networkEndpoints"]
    return {field: value for field, value in shown.items() if value is not None}


def _endpoint(host: str, row: NodeRow) -> dict[str, Any]:
    """A worker's address; its external one is the same, for whoever asks for external addresses."""
    external = (row.spec.get("networkConfig") or {}).get("enableExternalIps")
    found: dict[str, Any] = {"ipAddress": host, "port": row.port}
    return found | ({"accessConfig": {"externalIp": host}} if external else {})


@cache
def _config(kind: AcceleratorType) -> dict[str, Any] | None:
    config = catalogue.config_of(kind)
    return None if config is None else config.to_json()


def node_response(row: NodeRow, now: float, member: int | None = None) -> dict[str, Any]:
    """The node as an operation's response carries it."""
    return {"@type": NODE_TYPE, **node_json(row, now, member)}


def operation_view(row: OperationRow) -> Operation:
    metadata = OperationMetadata(
        create_time=moment(row.create_time),
        end_time=moment(row.end_time),
        target=row.target,
        verb=row.verb,
        cancel_requested=row.cancel_requested,
        api_version=row.api_version.lower().replace("_", ""),
    )
    error = None if row.error is None else Status.model_validate(row.error)
    return Operation(
        name=row.full_name, metadata=metadata, done=row.done, response=row.response if row.done else None, error=error
    )


def job_view(row: JobRow, directory: str, pid: int | None = None, waits_for: str | None = None) -> Job:
    """``waits_for`` says what a queued job waits for, where that is known better than when it was stored."""
    reason = None if row.waits is None or row.state.ended else waits_for or row.waits["reason"]
    planned = {name: row.plan[name] for name in ("restart", "checkpointDir", "priority") if name in row.plan}
    times = {name: moment(getattr(row, name)) for name in ("create_time", "start_time", "end_time")}
    stored = {name: getattr(row, name) for name in Job.model_fields if hasattr(row, name)}
    until = None if reason is None or row.waits is None else moment(row.waits["until"])
    more = {"directory": directory, "pid": pid, "waits_for": reason, "waits_until": until}
    return Job.model_validate(stored | planned | times | more)
