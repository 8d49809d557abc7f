"""Reading and changing what is stored. A change is one transaction: resource, operation and event together."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Insert,
    Row,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from tpuctl.api.jobs import JobState
from tpuctl.api.nodes import NodeState
from tpuctl.api.queued import QueuedState
from tpuctl.store import tables
from tpuctl.store.engine import open_engine, translated
from tpuctl.store.rows import (
    ApiFaultRow,
    BudgetRow,
    Event,
    JobRow,
    NodeRow,
    NodesAlike,
    OperationRow,
    PodRow,
    ProjectRow,
    QueuedRow,
    QuotaRequestRow,
    QuotaRow,
    RequestRow,
    ReservationRow,
    ScheduleRow,
    TokenRow,
    UsageRow,
)

log = logging.getLogger("tpuctl.events")
Resource = (
    NodeRow
    | OperationRow
    | QueuedRow
    | RequestRow
    | ApiFaultRow
    | JobRow
    | ScheduleRow
    | TokenRow
    | ProjectRow
    | PodRow
    | QuotaRow
    | UsageRow
    | BudgetRow
    | ReservationRow
    | QuotaRequestRow
)
AnyRow = TypeVar(
    "AnyRow",
    NodeRow,
    OperationRow,
    QueuedRow,
    RequestRow,
    ApiFaultRow,
    JobRow,
    ScheduleRow,
    TokenRow,
    ProjectRow,
    PodRow,
    QuotaRow,
    QuotaRequestRow,
    UsageRow,
    BudgetRow,
    ReservationRow,
)

_TABLES: dict[type[Any], Table] = {
    NodeRow: tables.nodes,
    OperationRow: tables.operations,
    QueuedRow: tables.queued_resources,
    RequestRow: tables.requests,
    ApiFaultRow: tables.api_faults,
    JobRow: tables.jobs,
    ScheduleRow: tables.schedules,
    TokenRow: tables.tokens,
    ProjectRow: tables.projects,
    PodRow: tables.pods,
    QuotaRow: tables.quotas,
    UsageRow: tables.usages,
    BudgetRow: tables.budgets,
    ReservationRow: tables.reservations,
    QuotaRequestRow: tables.quota_requests,
}
_KEYS: dict[type[Any], str] = {
    NodeRow: "uid",
    OperationRow: "name",
    QueuedRow: "uid",
    RequestRow: "request",
    ApiFaultRow: "id",
    JobRow: "uid",
    ScheduleRow: "uid",
    TokenRow: "id",
    ProjectRow: "project",
    PodRow: "name",
    QuotaRow: "name",
    UsageRow: "uid",
    BudgetRow: "project",
    ReservationRow: "uid",
    QuotaRequestRow: "id",
}
_taken = (
    select(literal(1))
    .where(
        tables.nodes.c.first_host < bindparam("end"),
        tables.nodes.c.first_host + tables.nodes.c.num_hosts > bindparam("first"),
    )
    .limit(1)
)
_scheduling = func.json_extract(tables.nodes.c.spec, "$.schedulingConfig")
_alike = (
    tables.nodes.c.zone,
    tables.nodes.c.accelerator_type,
    tables.nodes.c.topology,
    tables.nodes.c.num_slices,
    _scheduling,
)
_asked_for = (
    select(*_alike, func.count())
    .where(tables.nodes.c.project == bindparam("project"), tables.nodes.c.queued_resource.is_(None))
    .group_by(*_alike)
)
_node_uids = select(tables.nodes.c.uid)
_job_uids = select(tables.jobs.c.uid)
_ORDER = {kind: [field.name for field in dataclasses.fields(kind)] for kind in _TABLES}
_ENUMS: dict[type[Any], type[NodeState | QueuedState | JobState]] = {
    NodeRow: NodeState,
    QueuedRow: QueuedState,
    JobRow: JobState,
}
_STATES: dict[type[Any], tuple[int, dict[Any, Any]]] = {
    kind: (_ORDER[kind].index("state"), {str(member.value): member for member in states.__members__.values()})
    for kind, states in _ENUMS.items()
}
"""Where a row's state is, and its states by how they are stored."""
_every = {table: select(*(table.c[name] for name in _ORDER[kind])) for kind, table in _TABLES.items()}
"""All rows, their columns in the order of the row's fields."""
_INSERTS: dict[type[Any], Insert] = {kind: insert(table) for kind, table in _TABLES.items()}
_insert_event = insert(tables.events)
_held_operations = _every[tables.operations].where(
    tables.operations.c.done.is_(False), tables.operations.c.hold.is_not(None)
)
_placed_nodes = _every[tables.nodes].where(tables.nodes.c.placement.is_not(None))
_placed_with_scheduling = _placed_nodes.where(tables.nodes.c.zone == bindparam("zone"), _scheduling.is_not(None))
_placed_alike = (
    select(
        tables.nodes.c.project,
        tables.nodes.c.accelerator_type,
        tables.nodes.c.topology,
        func.sum(tables.nodes.c.num_slices),
    )
    .where(tables.nodes.c.placement.is_not(None))
    .group_by(tables.nodes.c.project, tables.nodes.c.accelerator_type, tables.nodes.c.topology)
)
_usages_since = _every[tables.usages].where(
    tables.usages.c.project == bindparam("project"),
    or_(tables.usages.c.end_time.is_(None), tables.usages.c.end_time > bindparam("since")),
)
_nodes_with_faults = _every[tables.nodes].where(tables.HAS_FAULTS)


class Reader:
    """Queries over one consistent view."""

    def __init__(self, connection: Connection, now: float) -> None:
        self._connection = connection
        self.now = now
        """When the view was taken, in seconds since the epoch."""

    def nodes(self, **where: object) -> list[NodeRow]:
        """The nodes whose columns equal ``where`` (or are in it, for a frozenset), oldest first."""
        return self._select(NodeRow, where)

    def some_nodes(self, first: int, count: int, **where: object) -> list[NodeRow]:
        """At most ``count`` of them, from number ``first`` on."""
        return self._select(NodeRow, where, first, count)

    def is_taken(self, first: int, count: int) -> bool:
        """Whether a node has one of so many addresses, from that number on."""
        found = self._connection.execute(_taken, {"first": first, "end": first + count})
        return found.first() is not None

    def nodes_alike(self, project: str) -> list[NodesAlike]:
        """How many nodes of a project are alike, but for those of queued resources."""
        return [NodesAlike(*row) for row in self._connection.execute(_asked_for, {"project": project})]

    def node_uids(self) -> list[str]:
        return list(self._connection.execute(_node_uids).scalars())

    def job_uids(self) -> list[str]:
        return list(self._connection.execute(_job_uids).scalars())

    def some_operations(self, first: int, count: int, **where: object) -> list[OperationRow]:
        return self._select(OperationRow, where, first, count)

    def some_queued_resources(self, first: int, count: int, **where: object) -> list[QueuedRow]:
        return self._select(QueuedRow, where, first, count)

    def operations(self, **where: object) -> list[OperationRow]:
        return self._select(OperationRow, where)

    def jobs(self, **where: object) -> list[JobRow]:
        return self._select(JobRow, where)

    def node(self, **where: object) -> NodeRow | None:
        return next(iter(self.nodes(**where)), None)

    def operation(self, name: str) -> OperationRow | None:
        return next(iter(self.operations(name=name)), None)

    def queued_resources(self, **where: object) -> list[QueuedRow]:
        return self._select(QueuedRow, where)

    def queued_resource(self, **where: object) -> QueuedRow | None:
        return next(iter(self.queued_resources(**where)), None)

    def request(self, request: str) -> RequestRow | None:
        return next(iter(self._select(RequestRow, {"request": request})), None)

    def schedules(self, **where: object) -> list[ScheduleRow]:
        return self._select(ScheduleRow, where)

    def api_faults(self) -> list[ApiFaultRow]:
        return self._select(ApiFaultRow, {})

    def tokens(self) -> list[TokenRow]:
        return self._select(TokenRow, {})

    def projects(self) -> list[ProjectRow]:
        """Those that have metadata."""
        return self._select(ProjectRow, {})

    def project(self, project: str) -> ProjectRow | None:
        return next(iter(self._select(ProjectRow, {"project": project})), None)

    def reservations(self, **where: object) -> list[ReservationRow]:
        return self._select(ReservationRow, where)

    def budgets(self) -> list[BudgetRow]:
        return self._select(BudgetRow, {})

    def usages_since(self, project: str, since: float) -> list[UsageRow]:
        """Those of a project that had not ended by then."""
        return self._found(UsageRow, _usages_since, {"project": project, "since": since})

    def usages(self, **where: object) -> list[UsageRow]:
        return self._select(UsageRow, where)

    def quotas(self, **where: object) -> list[QuotaRow]:
        return self._select(QuotaRow, where)

    def quota_requests(self, **where: object) -> list[QuotaRequestRow]:
        return self._select(QuotaRequestRow, where)

    def pods(self) -> list[PodRow]:
        """Those that something has happened to."""
        return self._select(PodRow, {})

    def placed_nodes(self) -> list[NodeRow]:
        """Those that lie somewhere in the fleet."""
        return self._found(NodeRow, _placed_nodes)

    def placed_with_scheduling(self, zone: str) -> list[NodeRow]:
        """Those in a zone that were asked for otherwise than on demand."""
        return self._found(NodeRow, _placed_with_scheduling, {"zone": zone})

    def placed_alike(self) -> list[tuple[str, str, str | None, int]]:
        """Project, accelerator type and topology of all that lie somewhere, and how many slices they are together."""
        return [(row[0], row[1], row[2], row[3]) for row in self._connection.execute(_placed_alike)]

    def held_operations(self) -> list[OperationRow]:
        """Those that a fault holds up."""
        return self._found(OperationRow, _held_operations)

    def nodes_with_faults(self) -> list[NodeRow]:
        """Those that something is to befall, or befalls now."""
        return self._found(NodeRow, _nodes_with_faults)

    def job(self, **where: object) -> JobRow | None:
        return next(iter(self.jobs(**where)), None)

    def events(self, resource: str | None = None) -> list[Event]:
        """What happened, oldest first."""
        query = select(tables.events).order_by(tables.events.c.number)
        if resource is not None:
            query = query.where(tables.events.c.resource == resource)
        return [Event(**row) for row in self._connection.execute(query).mappings()]

    def _select(
        self, kind: type[AnyRow], where: dict[str, object], first: int = 0, count: int | None = None
    ) -> list[AnyRow]:
        asked = tuple((column, _how(value)) for column, value in where.items())
        given = {
            f"is_{column}": list(value) if isinstance(value, frozenset) else value for column, value in where.items()
        }
        page = {} if count is None else {"first": first, "count": count}
        return self._found(kind, _selection(_TABLES[kind], asked, bool(page)), given | page)

    def _found(self, kind: type[AnyRow], query: Select[Any], given: Mapping[str, Any] | None = None) -> list[AnyRow]:
        return [_row(kind, found) for found in self._connection.execute(query, given)]


class Transaction(Reader):
    """Changes that are committed together, or not at all."""

    def __init__(self, connection: Connection, now: float, new_uid: Callable[[], str]) -> None:
        super().__init__(connection, now)
        self.new_uid = new_uid
        """Twelve hexadecimal digits that no resource has yet."""
        self.happened: list[Event] = []
        self.api_version = "V2"
        """In which the change is asked for."""

    def insert(self, row: Resource) -> None:
        self._connection.execute(_INSERTS[type(row)], {name: getattr(row, name) for name in _ORDER[type(row)]})

    def replace(self, row: AnyRow, **changes: object) -> AnyRow:
        """The row with ``changes``, stored."""
        key = getattr(row, _KEYS[type(row)])
        self._connection.execute(_update(_TABLES[type(row)], tuple(changes)), {"key": key, **changes})
        if isinstance(row, NodeRow) and "state" in changes:
            self._meter(row, changes["state"])
        changed: AnyRow = dataclasses.replace(row, **changes)  # type: ignore[arg-type]
        return changed

    def delete(self, row: Resource) -> None:
        table, key = _TABLES[type(row)], _KEYS[type(row)]
        self._connection.execute(delete(table).where(table.c[key] == getattr(row, key)))
        if isinstance(row, NodeRow):
            self._meter(row, None)

    def _meter(self, node: NodeRow, state: object) -> None:
        """A slice counts as used while it is READY; together with the change of its state, so no second is lost."""
        if state is NodeState.READY and node.state is not NodeState.READY:
            owner = None if node.owner_job is None else self.job(uid=node.owner_job)
            self.insert(
                UsageRow(
                    uid=self.new_uid(),
                    node=node.uid,
                    project=node.project,
                    zone=node.zone,
                    name=node.name,
                    accelerator_type=node.accelerator_type,
                    topology=node.topology,
                    num_slices=node.num_slices,
                    scheduling=node.spec.get("schedulingConfig") or {},
                    job=None if owner is None else owner.name,
                    create_time=self.now,
                )
            )
        elif node.state is NodeState.READY and state is not NodeState.READY:
            for usage in self.usages(node=node.uid, end_time=None):
                self.replace(usage, end_time=max(self.now, usage.create_time))

    def event(self, resource: str, change: str, message: str = "") -> None:
        event = Event(self.now, resource, change, message)
        self.happened.append(event)
        values = {"time": event.time, "resource": resource, "change": change, "message": message}
        self._connection.execute(_insert_event, values)

    def forget(self, before: float) -> None:
        """Drop finished operations, remembered requests and events older than ``before``."""
        operations, events, requests = tables.operations, tables.events, tables.requests
        self._connection.execute(delete(requests).where(requests.c.create_time < before))
        self._connection.execute(delete(operations).where(operations.c.done, operations.c.end_time < before))
        self._connection.execute(delete(events).where(events.c.time < before))


class Store:
    """The database of a control plane; safe for use from several threads. Raises ApiError for a full or bad disk.

    ``clock`` gives the time in seconds since the epoch, to all who decide by what is stored; ``new_uid`` what
    resources are told apart by. With both given, the same requests make the same history.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: uuid.uuid4().hex[:12],
    ) -> None:
        self._path = path
        self.clock = clock
        self._new_uid = new_uid
        self._engine = open_engine(path)
        self._writing = threading.Lock()
        self.version = 0
        """Grows with every committed change."""

    @contextmanager
    def change(self) -> Iterator[Transaction]:
        """A transaction, committed at the block's end and undone if it raises."""
        with self._writing, translated(self._path), self._engine.begin() as connection:
            transaction = Transaction(connection, self.clock(), self._new_uid)
            yield transaction
        self.version += 1
        for event in transaction.happened:
            log.info(event.change, extra={"resource": event.resource, "detail": event.message})

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with translated(self._path), self._engine.connect() as connection:
            yield Reader(connection.execution_options(read=True), self.clock())

    def close(self) -> None:
        self._engine.dispose()


def _how(value: object) -> str:
    """How a column is compared with a value."""
    return "in" if isinstance(value, frozenset) else "null" if value is None else "equal"


@cache
def _selection(table: Table, where: tuple[tuple[str, str], ...], paged: bool) -> Select[Any]:
    """Rows by columns, each compared with the parameter is_COLUMN; made once, since that takes longer than to ask."""
    query = _every[table].order_by(table.c.create_time, *table.primary_key)
    for name, how in where:
        column: Any = table.c[name]
        value: Any = bindparam(f"is_{name}", expanding=how == "in")
        query = query.where(
            column.in_(value) if how == "in" else column.is_(None) if how == "null" else column == value
        )
    return query.offset(bindparam("first")).limit(bindparam("count")) if paged else query


@cache
def _update(table: Table, columns: tuple[str, ...]) -> Update:
    """Sets the columns of the row whose key is the parameter ``key``."""
    (key,) = table.primary_key
    changed: dict[str, Any] = {column: bindparam(column) for column in columns}
    return update(table).where(key == bindparam("key")).values(changed)


def _row(kind: type[AnyRow], found: Row[Any]) -> AnyRow:
    made: Callable[..., AnyRow] = kind
    if kind not in _STATES:
        return made(*found)
    place, members = _STATES[kind]
    values = list(found)
    values[place] = members[values[place]]
    return made(*values)
