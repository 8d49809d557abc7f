"""Moving a queued resource from state to state, inside the transaction that is the reason for it."""

from __future__ import annotations

from tpuctl.api.errors import ApiError
from tpuctl.api.names import last
from tpuctl.api.queued import QueuedState, StateInitiator
from tpuctl.store import NodeRow, QueuedRow, Transaction


def move(change: Transaction, row: QueuedRow, state: QueuedState, by: StateInitiator, message: str = "") -> QueuedRow:
    change.event(row.full_name, f"{row.state} -> {state}", message)
    return change.replace(row, state=state, initiator=by)


def fail(change: Transaction, row: QueuedRow, error: ApiError) -> QueuedRow:
    """Its nodes cannot be had."""
    failed = change.replace(row, error=error.to_status())
    return move(change, failed, QueuedState.FAILED, StateInitiator.SERVICE, error.message)


def node_failed(change: Transaction, node: NodeRow, error: ApiError) -> None:
    """A node that a queued resource was to have could not be made."""
    if node.queued_resource is None:
        return
    row = change.queued_resource(project=node.project, zone=node.zone, name=last(node.queued_resource))
    if row is not None and row.state is QueuedState.PROVISIONING:
        fail(change, row, error)
