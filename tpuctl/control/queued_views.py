"""Queued resources as the API shows them."""

from __future__ import annotations

from typing import Any

from tpuctl.api.names import location_name
from tpuctl.api.nodes import Node
from tpuctl.api.operations import Status
from tpuctl.api.queued import (
    MultisliceParams,
    QueuedNodeSpec,
    QueuedResource,
    QueuedResourceState,
    QueuedState,
    StateData,
    StateInitiator,
    Tpu,
)
from tpuctl.control.queued_states import PLACED
from tpuctl.control.views import QUEUED_TYPE, moment
from tpuctl.store import QueuedRow


def node_ids(name: str, spec: QueuedNodeSpec) -> list[str]:
    """The ids of the nodes that ``spec`` asks for, in the queued resource ``name``."""
    if spec.several is None:
        return [spec.node_id or ""]
    return [f"{prefix(name, spec.several)}-{number}" for number in range(spec.several.node_count)]


def prefix(name: str, several: MultisliceParams) -> str:
    return several.node_id_prefix or name


def queued_view(row: QueuedRow) -> QueuedResource:
    """The queued resource; once its nodes have been made there is a spec for each of them."""
    asked = QueuedResource.model_validate(row.spec)
    (spec,) = asked.tpu.node_spec if asked.tpu else [QueuedNodeSpec()]
    parent = location_name(row.project, row.zone)
    if row.state in PLACED:
        specs = [QueuedNodeSpec(parent=parent, node_id=one, node=spec.node) for one in node_ids(row.name, spec)]
    else:
        specs = [spec.model_copy(update={"parent": parent})]
    return asked.model_copy(
        update={
            "name": row.full_name,
            "create_time": moment(row.create_time),
            "tpu": Tpu(node_spec=specs),
            "state": _state(row),
        }
    )


def queued_response(row: QueuedRow) -> dict[str, Any]:
    """The queued resource as an operation's response carries it."""
    return {"@type": QUEUED_TYPE, **queued_view(row).to_json()}


def queued_node(spec: QueuedNodeSpec) -> Node:
    return spec.node or Node()


def _state(row: QueuedRow) -> QueuedResourceState:
    made = QueuedResourceState(state=row.state, state_initiator=StateInitiator[row.initiator])
    if row.state is QueuedState.WAITING_FOR_RESOURCES:  # which has no data of its own
        return made
    error = None if row.error is None else Status.model_validate(row.error)
    return made.model_copy(update={f"{row.state.lower()}_data": StateData(error=error)})
