"""Parts of a slice that fail on request: put into the running slice, and told in the node's health."""

from __future__ import annotations

from typing import Any

from backend import errors as backend_errors
from backend.link.client import fault
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, Unavailable
from tpuctl.api.home import Home
from tpuctl.api.nodes import NodeState
from tpuctl.api.status import FaultRequest
from tpuctl.store import NodeRow, Transaction


def inject(home: Home, node: NodeRow, request: FaultRequest) -> dict[str, Any]:
    """Break or mend a part of the running slice; what it says of itself then. Raises ApiError."""
    if node.state is not NodeState.READY:
        raise FailedPrecondition(f"slice {node.name} is {node.state}; only a READY one can have faults")
    try:
        return fault(
            home.slice(node.uid),
            request.part,
            request.where,
            recover=request.recover,
            slice_index=request.slice_index,
        )
    except backend_errors.InvalidArgument as error:
        raise InvalidArgument(error.message) from error
    except backend_errors.TpuError as error:
        raise Unavailable(f"slice {node.name} does not answer: {error.message}") from error


def note(change: Transaction, node: NodeRow, said: dict[str, Any]) -> NodeRow:
    """The node with what its slice says of its faults."""
    current = change.node(uid=node.uid)
    if current is None or current.state is not NodeState.READY:
        return node
    changed = change.replace(current, health_description=said["faultText"])
    change.event(node.full_name, "faults", said["faultText"] or "all parts work again")
    return changed
