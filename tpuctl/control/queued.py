"""Queued resources: what users may ask for, and the steps that bring it about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tpuctl.api.errors import (
    AlreadyExists,
    ApiError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    bad_request,
    unable,
)
from tpuctl.api.names import check_id, check_project, check_queued_id, location_name, queued_name
from tpuctl.api.nodes import NodeSpec, NodeState, SchedulingConfig
from tpuctl.api.queued import MultisliceParams, QueuedNodeSpec, QueuedResource, QueuedState, StateInitiator, Tpu
from tpuctl.control import api_faults, budgets, catalogue, nodes, operations, quotas
from tpuctl.control.fleet import Part
from tpuctl.control.placing import Placing, is_spot, wanted_by
from tpuctl.control.queue_order import Candidate
from tpuctl.control.queued_moves import fail, move
from tpuctl.control.queued_states import REMOVABLE, RESETTABLE, WAITING, Window, initiator, next_state, window
from tpuctl.control.queued_views import node_ids, prefix, queued_node, queued_response
from tpuctl.store import NodeRow, OperationRow, QueuedRow, Reader, Store, Transaction

TIERS = ("best_effort", "spot", "guaranteed")
POLICIES = (
    "valid_until_duration",
    "valid_until_time",
    "valid_after_duration",
    "valid_after_time",
    "valid_interval",
)
NO_MULTISLICE = frozenset({"v2", "v3"})


def find(reader: Reader, project: str, zone: str, name: str) -> QueuedRow:
    """The queued resource. Raises NotFound."""
    row = reader.queued_resource(project=project, zone=catalogue.check_zone(zone), name=name)
    if row is None:
        raise NotFound.of(queued_name(project, zone, name))
    return row


def nodes_of(reader: Reader, row: QueuedRow) -> list[NodeRow]:
    return reader.nodes(queued_resource=row.full_name)


def create(
    change: Transaction, project: str, zone: str, name: str, asked: QueuedResource, api_version: str
) -> OperationRow:
    """A new queued resource in state CREATING, with its operation. Raises ApiError."""
    check_project(project)
    catalogue.check_zone(zone)
    check_queued_id(name)
    spec = _checked(project, zone, name, asked)
    if change.queued_resource(project=project, zone=zone, name=name) is not None:
        raise AlreadyExists.of(queued_name(project, zone, name))
    for node in node_ids(name, spec):
        nodes.check_free(change, project, zone, node)
    budgets.check(change, project)
    quotas.check(change, project, zone, *quotas.asked_by(zone, asked))
    now = change.now
    row = QueuedRow(
        uid=change.new_uid(),
        project=project,
        zone=zone,
        name=name,
        state=QueuedState.CREATING,
        initiator=StateInitiator.USER,
        spec=_stored(asked, spec),
        queue_time=now,
        create_time=now,
        api_version=api_version,
    )
    operation = operations.begin(change, "create", row)
    change.insert(api_faults.on_queued(change, dataclasses.replace(row, operation=operation.name)))
    change.event(row.full_name, f"-> {row.state}", ", ".join(node_ids(name, spec)))
    return operation


def delete(change: Transaction, row: QueuedRow, *, force: bool) -> OperationRow:
    """Begin to delete it; with ``force`` its nodes go first. Raises FailedPrecondition."""
    if row.state is QueuedState.DELETING:
        raise FailedPrecondition(f"{row.full_name} is being deleted already")
    left = nodes_of(change, row)
    if left and not force and row.state not in REMOVABLE:
        raise FailedPrecondition(
            f"{row.full_name} is {row.state} and has nodes: delete them first, or delete it with force"
        )
    operations.fail(change, row.operation, operations.deleted(row))
    operation = operations.begin(change, "delete", row)
    change.replace(row, state=QueuedState.DELETING, initiator=StateInitiator.USER, operation=operation.name)
    change.event(row.full_name, f"{row.state} -> {QueuedState.DELETING}")
    _delete_nodes(change, left)
    return operation


def reset(change: Transaction, row: QueuedRow) -> OperationRow:
    """Put the request into the queue again; what is left of its nodes goes first. Raises InvalidArgument."""
    if row.state not in RESETTABLE:
        raise bad_request(f"reset is not supported while in state {row.state}")
    _delete_nodes(change, nodes_of(change, row))
    operation = operations.begin(change, "reset", row)
    again = change.replace(
        row, state=QueuedState.ACCEPTED, initiator=StateInitiator.USER, error=None, queue_time=change.now
    )
    change.event(row.full_name, f"{row.state} -> {again.state}", "reset requested")
    return operations.succeed(change, operation.name, queued_response(again)) or operation


def perform_maintenance(change: Transaction, row: QueuedRow, names: list[str]) -> OperationRow:
    """Restart the nodes named, by id or in full. Raises ApiError."""
    if row.state is not QueuedState.ACTIVE:
        raise bad_request(f"performMaintenance is not supported while in state {row.state}")
    chosen = {nodes.find(change, row.project, row.zone, one.rsplit("/", 1)[-1]).uid for one in names}
    own = {node.uid: node for node in nodes_of(change, row)}
    if not chosen or not own.keys() >= chosen:
        raise InvalidArgument.of_fields({"nodeNames": f"name nodes of {row.full_name}"})
    for uid in chosen:
        nodes.act(change, own[uid], "restart")
    operation = operations.begin(change, "performMaintenance", row)
    return operations.succeed(change, operation.name, queued_response(row)) or operation


class QueuedReconciler:
    """Brings queued resources to the state they should be in, one transaction a step."""

    def __init__(self, store: Store, placing: Placing) -> None:
        self._store = store
        self._placing = placing

    def step(self, row: QueuedRow, made: list[NodeRow], places: Mapping[str, list[Part]]) -> None:
        """``made`` are its nodes, ``places`` where those that wait can have theirs now, by uid. Raises ApiError."""
        if row.state is QueuedState.DELETING:
            self._delete(row, made)
            return
        asked = QueuedResource.model_validate(row.spec)
        states = [node.state for node in made]
        parts = places.get(row.uid)
        target = next_state(row.state, states, opens(row, asked, self._store.clock()), self._store.clock())
        if target is QueuedState.PROVISIONING and parts is None:
            target = QueuedState.WAITING_FOR_RESOURCES if row.state is QueuedState.ACCEPTED else None
        if target is None:
            return
        placed: str | None = None
        with self._store.change() as change:
            current = change.queued_resource(uid=row.uid)
            if current is None or current.state is not row.state:
                return
            if target is QueuedState.FAILED:
                fail(change, current, DeadlineExceeded(f"{row.full_name} got no resources while its request was valid"))
            elif target is QueuedState.PROVISIONING:
                placed = _provision(change, current, asked, parts or [])
            else:
                move(change, current, target, initiator(target, row.initiator, states))
            operations.succeed(change, row.operation, queued_response(change.queued_resource(uid=row.uid) or current))
        if placed is not None:
            self._placing.fleet.take(placed, parts or [])

    def _delete(self, row: QueuedRow, made: list[NodeRow]) -> None:
        waiting = [node for node in made if node.state is not NodeState.DELETING]
        if made and not waiting:
            return
        with self._store.change() as change:
            current = change.queued_resource(uid=row.uid)
            if current is None or current.state is not row.state:
                return
            left = nodes_of(change, current)
            _delete_nodes(change, left)
            if not left:
                change.delete(current)
                operations.succeed(change, current.operation, queued_response(current))
                change.event(row.full_name, f"{row.state} -> gone")


def opens(row: QueuedRow, asked: QueuedResource, now: float) -> Window:
    """When its nodes may be made; never while a fault holds it up."""
    when = window(asked.queueing_policy, row.queue_time)
    return dataclasses.replace(when, start=float("inf")) if api_faults.is_held(row.hold, now) else when


def candidate(row: QueuedRow, now: float) -> Candidate | None:
    """A queued resource as one who waits; None if its nodes may not be made now."""
    asked = QueuedResource.model_validate(row.spec)
    when = opens(row, asked, now)
    if row.state not in WAITING or not when.start <= now < when.end:
        return None
    spec = _spec(asked)
    node = _node_of(asked, spec)
    count = 1 if spec.several is None else spec.several.node_count
    kind = catalogue.check_type(row.zone, node)
    given = node.to_json()
    wanted = wanted_by(row.project, row.zone, kind, count, given)
    return Candidate(row.uid, row.full_name, row.project, row.queue_time, wanted, is_spot(given))


def _spec(asked: QueuedResource) -> QueuedNodeSpec:
    (spec,) = asked.tpu.node_spec if asked.tpu else [QueuedNodeSpec()]
    return spec


def _provision(change: Transaction, row: QueuedRow, asked: QueuedResource, parts: list[Part]) -> str | None:
    """Make the nodes, all in this transaction or, where they cannot be, none; the uid of what was made."""
    spec = _spec(asked)
    several = spec.several
    name = spec.node_id or "" if several is None else prefix(row.name, several)
    try:
        made = nodes.create(
            change,
            row.project,
            row.zone,
            name,
            _node_of(asked, spec),
            num_slices=1 if several is None else several.node_count,
            queued_resource=row.full_name,
            node_prefix=None if several is None else name,
            api_version=row.api_version,
            placement=[part.to_json() for part in parts],
        )
    except ApiError as error:
        fail(change, row, error)
        return None
    move(change, row, QueuedState.PROVISIONING, StateInitiator.SERVICE)
    return made.uid


def _delete_nodes(change: Transaction, left: list[NodeRow]) -> None:
    for node in left:
        if node.state is not NodeState.DELETING:
            operations.begin_delete(change, node)


def _node_of(asked: QueuedResource, spec: QueuedNodeSpec) -> NodeSpec:
    """What is asked of each node, scheduled as the request is."""
    node = queued_node(spec)
    scheduling = node.scheduling_config or SchedulingConfig()
    if asked.spot is not None:
        scheduling = scheduling.model_copy(update={"spot": True})
    if asked.guaranteed is not None and asked.guaranteed.reserved:
        scheduling = scheduling.model_copy(update={"reserved": True})
    if asked.reservation_name:
        scheduling = scheduling.model_copy(update={"reserved": True, "reservation_name": asked.reservation_name})
    chosen = NodeSpec.model_validate(node.to_json())
    return chosen.model_copy(update={"scheduling_config": scheduling if scheduling.to_json() else None})


def _checked(project: str, zone: str, name: str, asked: QueuedResource) -> QueuedNodeSpec:
    """The spec of its nodes. Raises InvalidArgument."""
    specs = asked.tpu.node_spec if asked.tpu else []
    if len(specs) != 1:
        raise InvalidArgument.of_fields({"queuedResource.tpu.nodeSpec": f"give one node spec, not {len(specs)}"})
    (spec,) = specs
    if spec.node is None:
        raise InvalidArgument.of_fields({"queuedResource.tpu.nodeSpec.node": "is required"})
    if spec.parent and spec.parent.rsplit("/", 1)[-1] != zone:
        raise InvalidArgument.of_fields(
            {"queuedResource.tpu.nodeSpec.parent": f"{spec.parent} is not {location_name(project, zone)}"}
        )
    _at_most_one(asked, TIERS)
    if asked.queueing_policy is not None:
        _at_most_one(asked.queueing_policy, POLICIES)
        when = window(asked.queueing_policy, 0.0)
        if asked.queueing_policy.valid_interval and when.end <= when.start:
            raise InvalidArgument.of_fields({"queueingPolicy.validInterval": "ends before it starts"})
    kind = catalogue.check_type(zone, spec.node)
    _check_names(name, spec)
    if spec.several is not None and kind.generation.name in NO_MULTISLICE:
        raise unable(f"several nodes of {kind.name} cannot be joined; multislice needs v4 or later")
    return spec


def _check_names(name: str, spec: QueuedNodeSpec) -> None:
    several = spec.several
    if (several is None) == (spec.node_id is None):
        raise InvalidArgument.of_fields(
            {
                "queuedResource.tpu.nodeSpec": "give either nodeId, or, for several nodes, multisliceParams (v2alpha1: "
                "multiNodeParams)"
            }
        )
    if several is not None:
        if not 2 <= several.node_count <= nodes.MAX_SLICES:
            raise InvalidArgument.of_fields({"nodeCount": f"use a number from 2 to {nodes.MAX_SLICES}"})
        check_id("node", prefix(name, several))
    for node in node_ids(name, spec):
        check_id("node", node)


def _at_most_one(value: Any, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(value, name) is not None]
    if len(given) > 1:
        raise InvalidArgument(f"give only one of {', '.join(names)}, not {' and '.join(given)}")


def _stored(asked: QueuedResource, spec: QueuedNodeSpec) -> dict[str, Any]:
    """What of a request is kept, under the names of every version."""
    node = NodeSpec.model_validate(queued_node(spec).to_json()).to_json()
    several: MultisliceParams | None = spec.several
    params = None if several is None else several.to_json()
    kept = QueuedNodeSpec.model_validate(
        {"nodeId": spec.node_id, "multisliceParams": params, "multiNodeParams": params, "node": node}
    )
    return asked.model_copy(
        update={"name": "", "state": None, "create_time": None, "tpu": Tpu(node_spec=[kept])}
    ).to_json()
