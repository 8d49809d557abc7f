"""Beginning and ending operations, inside the transaction that changes their target."""

from __future__ import annotations

import secrets
import time
from typing import Any

from tpuctl.api.errors import ApiError, Cancelled
from tpuctl.api.nodes import NodeState
from tpuctl.control.node_states import VERBS
from tpuctl.store import NodeRow, OperationRow, Transaction


def begin(change: Transaction, verb: str, node: NodeRow) -> OperationRow:
    """A new operation on ``node``, named as Cloud TPU names them."""
    now = time.time()
    operation = OperationRow(
        name=f"operation-{int(now * 1000)}-{secrets.token_hex(6)}",
        project=node.project,
        zone=node.zone,
        target=node.full_name,
        verb=verb,
        create_time=now,
    )
    change.insert(operation)
    return operation


def succeed(change: Transaction, name: str | None, response: dict[str, Any]) -> None:
    operation = None if name is None else change.operation(name)
    if operation is not None and not operation.done:
        change.replace(operation, done=True, response=response, end_time=time.time())


def fail(change: Transaction, name: str | None, error: ApiError) -> None:
    operation = None if name is None else change.operation(name)
    if operation is not None and not operation.done:
        change.replace(operation, done=True, error=error.to_status(), end_time=time.time())


def begin_delete(change: Transaction, node: NodeRow) -> OperationRow:
    """Mark ``node`` for deletion; an operation under way on it ends as cancelled."""
    assert node.state in VERBS["delete"]  # noqa: S101
    fail(change, node.operation, Cancelled(f"{node.full_name} is being deleted"))
    operation = begin(change, "delete", node)
    change.replace(node, state=NodeState.DELETING, operation=operation.name)
    change.event(node.full_name, f"{node.state} -> {NodeState.DELETING}")
    return operation
