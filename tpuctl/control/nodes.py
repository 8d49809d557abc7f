"""Slices: what users may ask for, and the steps that bring it about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from backend.host.address import Address, Block, free_block
from backend.host.executor import LocalExecutor
from backend.host.metadata import METADATA_DOWN
from backend.host.process import forget
from tpuctl.api.errors import (
    AlreadyExists,
    ApiError,
    Cancelled,
    Internal,
    InvalidArgument,
    NotFound,
    bad_request,
    from_status,
)
from tpuctl.api.home import Home
from tpuctl.api.names import check_id, check_project, node_name, shape_text
from tpuctl.api.nodes import Node, NodeSpec, NodeState
from tpuctl.control import (
    api_faults,
    budgets,
    catalogue,
    maintenance,
    operations,
    quotas,
    repair,
    reservations,
    telemetry,
)
from tpuctl.control.hosted import hosted_slice, num_hosts
from tpuctl.control.job_moves import slice_failed
from tpuctl.control.job_waits import holds_slice
from tpuctl.control.node_faults import MAINTENANCE, next_fates, strikes_now
from tpuctl.control.node_states import SETTLED_STATE, UPDATABLE, VERBS, NodeAction, is_settled, next_action
from tpuctl.control.patience import Patience
from tpuctl.control.placing import Placing
from tpuctl.control.preemption import preempted_why
from tpuctl.control.provisioning import provisioning_of
from tpuctl.control.queued_moves import node_failed
from tpuctl.control.views import node_response
from tpuctl.control.vms import end_vms, start_script
from tpuctl.store import JobRow, NodeRow, OperationRow, Reader, Store, Transaction

START_SECONDS = 30.0
STOP_SECONDS = 5.0
MAX_FAILURES = 3
FAILURE_WINDOW_SECONDS = 60.0
MAX_SLICES = 64
DEFAULT_RUNTIME_VERSION = "tpu-ubuntu2204-base"


def find(reader: Reader, project: str, zone: str, name: str) -> NodeRow:
    """The node, or the multislice that has it as a member. Raises NotFound."""
    node = _lookup(reader, project, catalogue.check_zone(zone), name)
    if node is None:
        raise NotFound.of(node_name(project, zone, name))
    return node


def member_of(node: NodeRow, name: str) -> int | None:
    """Which of the members of ``node``, a multislice, ``name`` is; None if it is the whole or no multislice."""
    prefix, _, number = name.rpartition("-")
    if node.node_prefix is None or prefix != node.node_prefix or not (number.isascii() and number.isdigit()):
        return None
    return int(number) if str(int(number)) == number and int(number) < node.num_slices else None


def check_free(reader: Reader, project: str, zone: str, name: str) -> None:
    """Raises AlreadyExists if there is a node of that name."""
    if _lookup(reader, project, zone, name) is not None:
        raise AlreadyExists.of(node_name(project, zone, name))


def _lookup(reader: Reader, project: str, zone: str, name: str) -> NodeRow | None:
    node = reader.node(project=project, zone=zone, name=name)
    if node is None and "-" in name:
        found = reader.nodes(project=project, zone=zone, node_prefix=name.rpartition("-")[0])
        node = next((one for one in found if member_of(one, name) is not None), None)
    return node


def create(
    change: Transaction,
    project: str,
    zone: str,
    name: str,
    spec: NodeSpec,
    *,
    num_slices: int = 1,
    owner: str | None = None,
    queued_resource: str | None = None,
    node_prefix: str | None = None,
    api_version: str = "V2",
    placement: list[dict[str, Any]] | None = None,
) -> NodeRow:
    """A new node in state CREATING, with its operation: so many slices of what ``spec`` asks for. Raises ApiError.

    With a ``node_prefix`` each slice is a node PREFIX-0 and on to the Cloud TPU API. ``placement`` is where the slices
    are to lie, if that has been decided.
    """
    check_project(project)
    catalogue.check_zone(zone)
    check_id("node", name)
    chosen = catalogue.check_type(zone, spec)
    if spec.network_config and spec.network_configs:
        raise InvalidArgument("give either networkConfig or networkConfigs, not both")
    check_free(change, project, zone, name)
    if queued_resource is None and 1 <= num_slices <= MAX_SLICES:  # a queued resource has its quota already
        budgets.check(change, project)
        quotas.check(change, project, zone, chosen, num_slices, provisioning_of(spec.to_json()))
    reservations.check(change, project, zone, chosen, num_slices, spec.to_json())
    if not 1 <= num_slices <= MAX_SLICES:
        raise InvalidArgument.of_fields({"numSlices": f"{num_slices} is not a number from 1 to {MAX_SLICES}"})
    uid = change.new_uid()
    unnumbered = [Block(Address(node.host, node.port), num_hosts(node)) for node in change.nodes(first_host=None)]
    block = free_block(uid, unnumbered, chosen.num_hosts * num_slices, change.is_taken)
    node = NodeRow(
        uid=uid,
        project=project,
        zone=zone,
        name=name,
        accelerator_type=chosen.name,
        state=NodeState.CREATING,
        host=block.first.host,
        port=block.first.port,
        first_host=block.number,
        num_hosts=block.count,
        topology=chosen.topology,
        num_slices=num_slices,
        create_time=change.now,
        spec=_stored(spec),
        owner_job=owner,
        queued_resource=queued_resource,
        node_prefix=node_prefix,
        api_version=api_version,
        placement=placement,
    )
    for member in range(num_slices if node_prefix is not None else 0):
        check_free(change, project, zone, f"{node_prefix}-{member}")
    operation = operations.begin(change, "create", node)
    node = api_faults.on_node(change, dataclasses.replace(node, operation=operation.name))
    change.insert(node)
    change.event(node.full_name, f"-> {node.state}", shape_text(chosen.name, num_slices))
    return node


def act(change: Transaction, node: NodeRow, verb: str, spec: dict[str, Any] | None = None) -> OperationRow:
    """Begin to start, stop, restart, reimage or delete a node; ``spec`` is what changes of it.

    Raises InvalidArgument for a state or a node that does not allow it.
    """
    target = VERBS[verb].get(node.state)
    if target is None:
        raise bad_request(f"{verb} of {node.full_name} is not supported while in state {node.state}")
    if verb == "delete":
        return operations.begin_delete(change, node)
    if verb in ("start", "stop") and num_hosts(node) > 1:
        raise bad_request(f"{verb} is not supported for pods: {node.full_name} has {num_hosts(node)} hosts")
    operation = operations.begin(change, verb, node)
    change.replace(node, state=target, operation=operation.name, failures=0, spec=node.spec | (spec or {}))
    change.event(node.full_name, f"{node.state} -> {target}", f"{verb} requested")
    return operation


PATCHABLE = ("description", "labels", "metadata", "tags", "dataDisks", "networkConfig.enableExternalIps")
"""What an update mask may name, in this spelling or with underscores."""


def update(
    change: Transaction, node: NodeRow, mask: list[str], values: Node, member: int | None = None
) -> OperationRow:
    """Replace the fields that ``mask`` names, and only those. Raises InvalidArgument."""
    if node.state not in UPDATABLE:
        raise bad_request(f"update is not supported while in state {node.state}")
    paths = [".".join(map(to_camel, path.strip().split("."))) for path in mask]
    unknown = [path for path in paths if path not in PATCHABLE]
    if unknown or not paths:
        named = ", ".join(unknown) or "nothing"
        text = f"names {named}; what can be updated is {', '.join(PATCHABLE)}"
        raise InvalidArgument.of_fields({"updateMask": text})
    given = values.to_json()
    spec: dict[str, Any] = dict(node.spec)
    for path in paths:
        parent, _, child = path.partition(".")
        if child:
            spec[parent] = {**(spec.get(parent) or {}), child: given.get(parent, {}).get(child)}
        else:
            spec[parent] = given.get(parent)
    operation = operations.begin(change, "update", node)
    changed = change.replace(node, spec=spec)
    change.event(node.full_name, "updated", ", ".join(mask))
    return operations.succeed(change, operation.name, node_response(changed, change.now, member)) or operation


class NodeReconciler:
    """Brings slices to the state they should be in, one short step at a time."""

    def __init__(self, store: Store, executor: LocalExecutor, home: Home, placing: Placing) -> None:
        self._store = store
        self._executor = executor
        self._home = home
        self._placing = placing
        self._starting = Patience(START_SECONDS)
        self._stopping = Patience(STOP_SECONDS)

    def step(self, node: NodeRow, jobs: list[JobRow], held: Mapping[str, OperationRow]) -> None:
        """``jobs`` are those that have not ended: a slice is not taken from under a worker.

        ``held`` are the operations that faults hold up, by their names. Raises ApiError.
        """
        directory = self._home.slice(node.uid)
        if node.state is NodeState.DELETING and any(runs_on(job, node) and holds_slice(job) for job in jobs):
            return
        if node.faults and self._strike(node, directory):
            return
        action = next_action(node.state, self._executor.slice_state(directory))
        holding = held.get(node.operation or "")
        if holding is not None and self._is_held_up(node, directory, action, holding):
            return
        match action:
            case NodeAction.START if node.placement is None:
                self._place(node)
            case NodeAction.START:
                self._start(node)
            case NodeAction.AWAIT:
                if self._cancel_requested(node) or self._starting.exhausted(node.uid):
                    self._executor.end(directory, kill=True)
            case NodeAction.STOP:
                end_vms(self._executor, directory)
                self._executor.end(directory, kill=self._stopping.exhausted(node.uid))
            case NodeAction.REPAIR:
                self._repair(node)
            case NodeAction.FAIL:
                self._fail(node, self._failure(node))
            case NodeAction.SETTLE:
                self._settle(node)
        if action not in (NodeAction.AWAIT, NodeAction.STOP):
            self._starting.reset(node.uid)
            self._stopping.reset(node.uid)

    def _strike(self, node: NodeRow, directory: Path) -> bool:
        """Let befall the node what is due. Whether that is all there is to do now."""
        now = self._store.clock()
        fates = next_fates(node, now)
        down = strikes_now(node, "metadata", now)
        if directory.exists() and (directory / METADATA_DOWN).exists() is not down:
            (directory / METADATA_DOWN).touch() if down else (directory / METADATA_DOWN).unlink(missing_ok=True)
        vanishes = strikes_now(node, "vanish", now)
        if vanishes and self._executor.is_alive(directory):
            self._executor.end(directory, kill=True)
            return True
        if strikes_now(node, repair.REPAIR, now):
            said = telemetry.ask(self._home, node)
            if said is not None:
                repair.begin(self._store, self._placing, node, said["faults"])
            return said is not None
        if strikes_now(node, MAINTENANCE, now):
            maintenance.begin(self._store, self._placing, node)
            (directory / MAINTENANCE).unlink(missing_ok=True)
            return True
        preempted = strikes_now(node, "preempt", now)
        if not (vanishes or preempted) and fates == node.faults:
            return False
        if vanishes:
            self._executor.remove(directory)
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is None or (current.state, current.faults) != (node.state, node.faults):
                return True
            if vanishes:
                change.delete(current)
                change.event(node.full_name, f"{node.state} -> gone", "vanished by a fault")
            elif preempted:
                why = preempted_why(node) or "preempted by a fault"
                change.replace(current, state=NodeState.PREEMPTED, faults=[], operation=None, placement=None)
                change.event(node.full_name, f"{node.state} -> {NodeState.PREEMPTED}", why)
            else:
                change.replace(current, faults=fates)
        if vanishes or preempted:
            self._placing.fleet.release(node.uid)
        return True

    def _is_held_up(self, node: NodeRow, directory: Path, action: NodeAction, operation: OperationRow) -> bool:
        """Whether the operation under way may not go on; one that is to fail, or was cancelled, is ended instead."""
        held = api_faults.is_held(operation.hold, self._store.clock())
        error = (operation.hold or {}).get("error")
        if node.state is NodeState.CREATING and action is NodeAction.START and (error or operation.cancel_requested):
            if not held or operation.cancel_requested:
                self._fail(node, self._failure(node))
            return True
        if action is not NodeAction.SETTLE or SETTLED_STATE[node.state] is NodeState.STARTING:
            return False
        if node.state is NodeState.CREATING and (operation.cancel_requested or (error and not held)):
            self._executor.end(directory, kill=True)
            return True
        return held

    def _place(self, node: NodeRow) -> None:
        """Find chips for it, unless others have to go first."""
        if self._cancel_requested(node):
            self._fail(node, self._failure(node))
            return
        found = self._placing.place(node)
        if isinstance(found, ApiError):
            self._fail(node, found)
        elif found is not None:
            self._start(found)

    def _start(self, node: NodeRow) -> None:
        try:
            self._executor.start_slice(hosted_slice(self._home, node))
        except OSError as error:
            self._fail(node, Internal(f"cannot start slice {node.name}: {error.strerror or error}"))

    def _cancel_requested(self, node: NodeRow) -> bool:
        with self._store.read() as reader:
            operation = node.operation and reader.operation(node.operation)
        return bool(operation and operation.cancel_requested)

    def _failure(self, node: NodeRow) -> ApiError:
        if self._cancel_requested(node):
            return Cancelled("the operation was cancelled")
        with self._store.read() as reader:
            operation = None if node.operation is None else reader.operation(node.operation)
        if operation is not None and operation.hold is not None and operation.hold.get("error"):
            return from_status(operation.hold["error"])
        return Internal(f"slice {node.name} did not start: {self._executor.slice_failure(self._home.slice(node.uid))}")

    def _settle(self, node: NodeRow) -> None:
        target = SETTLED_STATE[node.state]
        directory = self._home.slice(node.uid)
        if target is None:
            if not end_vms(self._executor, directory):
                return
            self._executor.remove(directory)
        elif target in (NodeState.STOPPED, NodeState.STARTING):
            forget(directory)
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is None or current.state is not node.state:
                return
            if target is None:
                change.delete(current)
                operations.succeed(change, node.operation, node_response(current, change.now))
            elif not is_settled(target):
                change.replace(current, state=target)
            else:
                place = None if target is NodeState.STOPPED else current.placement
                settled = change.replace(
                    current, state=target, operation=None, health_description=None, placement=place
                )
                operations.succeed(change, node.operation, node_response(settled, change.now))
            change.event(node.full_name, f"{node.state} -> {target or 'gone'}")
        if target in (None, NodeState.STOPPED):
            self._placing.fleet.release(node.uid)
        if node.state is NodeState.CREATING and target is NodeState.READY:
            self._start_script(node)

    def _start_script(self, node: NodeRow) -> None:
        try:
            start_script(self._home, self._executor, node)
        except OSError as error:
            with self._store.change() as change:
                change.event(node.full_name, "startup script not started", error.strerror or str(error))

    def _fail(self, node: NodeRow, error: ApiError) -> None:
        """End the operation under way in failure: a new slice disappears, an older one is TERMINATED."""
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is None or current.state is not node.state:
                return
            operations.fail(change, node.operation, error)
            if node.state is NodeState.CREATING:
                change.delete(current)
                node_failed(change, current, error)
                owner = None if node.owner_job is None else change.job(uid=node.owner_job)
                if owner is not None:
                    slice_failed(change, owner, error, had_room=current.placement is not None)
            else:
                text = error.message
                change.replace(
                    current, state=NodeState.TERMINATED, operation=None, health_description=text, placement=None
                )
            change.event(node.full_name, f"{node.state} failed", error.message)
        self._placing.fleet.release(node.uid)
        directory = self._home.slice(node.uid)
        if node.state is NodeState.CREATING:
            self._executor.remove(directory)
        else:
            forget(directory)

    def _repair(self, node: NodeRow) -> None:
        """The runtime is gone: start it anew, unless that has failed several times in a row."""
        reason = self._executor.slice_failure(self._home.slice(node.uid))
        now = self._store.clock()
        recent = node.failure_time is not None and now - node.failure_time < FAILURE_WINDOW_SECONDS
        failures = node.failures + 1 if recent else 1
        state = NodeState.TERMINATED if failures > MAX_FAILURES else NodeState.REPAIRING
        text = f"the slice's runtime ended unexpectedly, its memory is lost: {reason}"
        with self._store.change() as change:
            current = change.node(uid=node.uid)
            if current is None or current.state is not node.state:
                return
            change.replace(current, state=state, failures=failures, failure_time=now, health_description=text)
            change.event(node.full_name, f"{node.state} -> {state}", text)
        forget(self._home.slice(node.uid))


def runs_on(job: JobRow, node: NodeRow) -> bool:
    return (job.project, job.zone, job.slice) == (node.project, node.zone, node.name)


def _stored(spec: NodeSpec) -> dict[str, Any]:
    """What of a request is kept: only the fields that are its creator's to choose."""
    kept = NodeSpec.model_validate(spec.to_json()).to_json()
    kept.pop("acceleratorType", None)
    return {"runtimeVersion": DEFAULT_RUNTIME_VERSION, "networkConfig": {"network": "default"}} | kept
