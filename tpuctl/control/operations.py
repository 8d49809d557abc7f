"""Beginning and ending operations, inside the transaction that changes their target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuctl.api.errors import ApiError, Cancelled
from tpuctl.api.nodes import NodeState
from tpuctl.control import api_faults
from tpuctl.control.node_states import VERBS
from tpuctl.store import NodeRow, OperationRow, QueuedRow, RequestRow, Transaction


def begin(change: Transaction, verb: str, target: NodeRow | QueuedRow) -> OperationRow:
    """A new operation on ``target``, named as Cloud TPU names them."""
    now = change.now
    operation = OperationRow(
        name=f"operation-{int(now * 1000)}-{change.new_uid()}",
        project=target.project,
        zone=target.zone,
        target=target.full_name,
        verb=verb,
        create_time=now,
        api_version=change.api_version,
    )
    operation = api_faults.on_operation(change, operation)
    change.insert(operation)
    return operation


def request_key(verb: str, collection: str, project: str, zone: str, request_id: str) -> str:
    """What tells a request apart from all others; empty if its sender gave it no id."""
    return f"{verb} projects/{project}/locations/{zone}/{collection} {request_id}" if request_id else ""


def once(change: Transaction, key: str, decide: Callable[[Transaction], OperationRow]) -> OperationRow:
    """The operation that ``decide`` begins, or the one that the same request has begun before."""
    if not key:
        return decide(change)
    known = change.request(key)
    before = None if known is None else change.operation(known.operation)
    if before is not None:
        return before
    operation = decide(change)
    if known is None:
        change.insert(RequestRow(request=key, operation=operation.name, create_time=operation.create_time))
    else:
        change.replace(known, operation=operation.name)
    return operation


def succeed(change: Transaction, name: str | None, response: dict[str, Any]) -> OperationRow | None:
    """The operation as it is then; None if there is none that could succeed.

    One that a fault holds up keeps its response to itself until ``release``.
    """
    operation = None if name is None else change.operation(name)
    if operation is None or operation.done:
        return None
    if api_faults.is_held(operation.hold, change.now):
        return change.replace(operation, response=response)
    return change.replace(operation, done=True, response=response, end_time=change.now)


def release(change: Transaction, held: OperationRow) -> None:
    """End an operation that has come to its end while a fault held it up, unless one still does."""
    operation = change.operation(held.name)
    if operation is not None and operation.response is not None:
        succeed(change, operation.name, operation.response)


def fail(change: Transaction, name: str | None, error: ApiError) -> None:
    operation = None if name is None else change.operation(name)
    if operation is not None and not operation.done:
        change.replace(operation, done=True, error=error.to_status(), end_time=change.now)


def deleted(target: NodeRow | QueuedRow) -> Cancelled:
    return Cancelled(f"{target.full_name} is being deleted")


def begin_delete(change: Transaction, node: NodeRow) -> OperationRow:
    """Mark ``node`` for deletion; an operation under way on it ends as cancelled."""
    assert node.state in VERBS["delete"]  # noqa: S101
    fail(change, node.operation, deleted(node))
    operation = begin(change, "delete", node)
    change.replace(node, state=NodeState.DELETING, operation=operation.name)
    change.event(node.full_name, f"{node.state} -> {NodeState.DELETING}")
    return operation
