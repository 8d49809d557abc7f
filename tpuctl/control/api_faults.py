"""Which faults of the API strike what? Rules are rows of the store, and so is how often each has struck."""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from tpuctl.api.api_faults import ApiFault
from tpuctl.api.errors import ApiError, InvalidArgument, NotFound
from tpuctl.api.fault_kinds import KINDS, Point
from tpuctl.control.fault_errors import ERRORS, Asked, rate_limit
from tpuctl.control.node_faults import new_fate
from tpuctl.store import ApiFaultRow, NodeRow, OperationRow, QueuedRow, Store, Transaction

WINDOW_SECONDS = 60.0
"""What a rate limit counts in."""
SETTINGS = ("method", "after", "at_step", "seconds", "limit")
DEFAULTS: dict[str | tuple[str, str], Any] = {
    "after": 0.0,
    "limit": 10,
    ("stockout-later", "seconds"): 1.0,
    ("reservation", "seconds"): 1.0,
    ("slow", "seconds"): 30.0,
    ("late", "seconds"): 30.0,
}
"""Of settings, or of one of a kind; the other kinds that last some seconds last until they are cleared."""
METHODS = {
    ("nodes", "update"): "patch",
    ("nodes", "restart"): "performMaintenance",
    ("queuedResources", "performMaintenance"): "performMaintenanceQueuedResource",
}
"""Which method begins operations of a verb, where it is called otherwise."""


@dataclass(frozen=True)
class Subject:
    """What a fault may strike: at which point, by which method, and the id and full name of the resource."""

    point: Point
    what: str
    id: str
    full_name: str


def matches(rule: ApiFaultRow, subject: Subject) -> bool:
    """Whether the rule is about the subject. A pattern with a slash is one of full names, another one of ids."""
    kind = KINDS[rule.kind]
    if kind.point is not subject.point or (kind.subjects and subject.what not in kind.subjects):
        return False
    if rule.method is not None and not fnmatchcase(subject.what, rule.method):
        return False
    return fnmatchcase(subject.full_name if "/" in rule.name else subject.id, rule.name)


def strikes(rule: ApiFaultRow, now: float) -> bool:
    """Whether the next of what matches is struck: always the same for the same seed and number of it.

    A rate limit strikes what is over its limit within a minute.
    """
    if rule.count is not None and rule.struck >= rule.count:
        return False
    if rule.rate is not None and len(_recent(rule, now)) < rule.rate:
        return False
    return rule.probability >= 1 or random.Random(f"{rule.seed}/{rule.seen}").random() < rule.probability  # noqa: S311


def after(rule: ApiFaultRow, struck: bool, now: float) -> dict[str, Any]:
    """What changes of a rule once something has matched it."""
    changes: dict[str, Any] = {"seen": rule.seen + 1, "struck": rule.struck + struck}
    if rule.rate is not None:
        changes["recent"] = [*_recent(rule, now), *([] if struck else [now])]
    return changes


def draw(change: Transaction, subject: Subject) -> Iterator[ApiFaultRow]:
    """The rules that strike the subject, oldest first; each is noted as it is drawn."""
    return _drawn(change, change.api_faults(), subject)


def _drawn(change: Transaction, rules: list[ApiFaultRow], subject: Subject) -> Iterator[ApiFaultRow]:
    now = change.now
    for rule in rules:
        if matches(rule, subject):
            struck = strikes(rule, now)
            change.replace(rule, **after(rule, struck, now))
            if struck:
                change.event(subject.full_name, f"fault {rule.kind}", rule.id)
                yield rule


def on_operation(change: Transaction, operation: OperationRow) -> OperationRow:
    """A new operation, with what is to hold it up or to end it in failure."""
    _, _, _, _, collection, name = operation.target.split("/")
    method = f"{collection}.{METHODS.get((collection, operation.verb), operation.verb)}"
    rule = next(draw(change, Subject(Point.OPERATION, method, name, operation.target)), None)
    if rule is None:
        return operation
    hold: dict[str, Any] = {"fault": rule.id, "until": None}
    if rule.seconds is not None:
        hold["until"] = operation.create_time + rule.seconds
    if rule.kind in ERRORS:
        hold["error"] = ERRORS[rule.kind](Asked(method, operation.project, operation.zone, name)).to_status()
    return dataclasses.replace(operation, hold=hold)


def on_node(change: Transaction, node: NodeRow) -> NodeRow:
    """A new node, with what is to befall it."""
    fates = [new_fate(rule) for rule in draw(change, Subject(Point.NODE, "", node.name, node.full_name))]
    return dataclasses.replace(node, faults=fates)


def on_queued(change: Transaction, row: QueuedRow) -> QueuedRow:
    """A new queued resource, with until when it has to wait for its nodes."""
    rule = next(draw(change, Subject(Point.QUEUE, "", row.name, row.full_name)), None)
    if rule is None:
        return row
    return dataclasses.replace(row, hold={"fault": rule.id, "until": row.create_time + (rule.seconds or 0.0)})


def is_held(hold: dict[str, Any] | None, now: float) -> bool:
    """Whether what has that ``hold`` may not go on yet."""
    return hold is not None and (hold["until"] is None or now < hold["until"])


class ApiFaults:
    """The faults of a control plane: added, listed, cleared, and asked at each request. Any thread."""

    def __init__(self, store: Store, wake: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._wake = wake
        with store.read() as reader:
            self.any = bool(reader.api_faults())
        """Whether there are any: without, nothing is asked."""

    def on_request(self, asked: Asked) -> ApiError | None:
        """The error to answer with in place of doing what is asked."""
        return self._on(Point.REQUEST, asked)

    def on_answer(self, asked: Asked) -> ApiError | None:
        """The error to answer with though it has been done."""
        return self._on(Point.ANSWER, asked)

    def _on(self, point: Point, asked: Asked) -> ApiError | None:
        subject = Subject(point, asked.method, asked.id, asked.full_name)
        with self._store.read() as reader:
            if not any(matches(rule, subject) for rule in reader.api_faults()):
                return None
        with self._store.change() as change:
            rule = next(draw(change, subject), None)
        if rule is None:
            return None
        return ERRORS[rule.kind](asked) if rule.rate is None else rate_limit(asked, rule.rate)

    def add(self, wanted: ApiFault) -> ApiFault:
        """A new fault; one of nodes also strikes those that are there. Raises InvalidArgument."""
        with self._store.change() as change:
            rule = _rule(wanted, change.now)
            change.insert(rule)
            change.event(f"faults/{rule.id}", "added", rule.kind)
            for node in change.nodes() if KINDS[rule.kind].point is Point.NODE else []:
                subject = Subject(Point.NODE, "", node.name, node.full_name)
                if list(_drawn(change, [_current(change, rule)], subject)):
                    change.replace(node, faults=[*node.faults, new_fate(rule)])
            self.any = True
            made = fault_view(_current(change, rule))
        self._wake()
        return made

    def list(self) -> list[ApiFault]:
        """All there are, oldest first."""
        with self._store.read() as reader:
            return [fault_view(row) for row in reader.api_faults()]

    def clear(self, fault: str | None = None) -> None:
        """Forget a fault, or all of them; what it holds up goes on, and what it has yet to do is not done.

        Raises NotFound.
        """
        with self._store.change() as change:
            found = [row for row in change.api_faults() if fault in (None, row.id)]
            if fault is not None and not found:
                raise NotFound(f"there is no fault {fault!r}; `tpuctl fault api list` shows those there are")
            ids = {row.id for row in found}
            for row in found:
                change.delete(row)
                change.event(f"faults/{row.id}", "cleared", row.kind)
            for operation in change.held_operations():
                if operation.hold is not None and operation.hold["fault"] in ids:
                    change.replace(operation, hold={"fault": operation.hold["fault"], "until": 0.0})
            for node in change.nodes_with_faults():
                fates = [fate | {"cleared": True} if fate["fault"] in ids else fate for fate in node.faults]
                change.replace(node, faults=fates)
            for queued in change.queued_resources():
                if queued.hold is not None and queued.hold["fault"] in ids:
                    change.replace(queued, hold=None)
            self.any = bool(change.api_faults())
        self._wake()


def fault_view(rule: ApiFaultRow) -> ApiFault:
    given = {name: getattr(rule, name) for name in ApiFault.model_fields if hasattr(rule, name)}
    made = datetime.fromtimestamp(rule.create_time, UTC)
    return ApiFault.model_validate(given | {"limit": rule.rate, "create_time": made})


def _current(change: Transaction, rule: ApiFaultRow) -> ApiFaultRow:
    return next(row for row in change.api_faults() if row.id == rule.id)


def _rule(wanted: ApiFault, now: float) -> ApiFaultRow:
    """The rule that is asked for. Raises InvalidArgument."""
    kind = KINDS.get(wanted.kind)
    if kind is None:
        raise InvalidArgument.of_fields({"kind": f"{wanted.kind!r} is none; there are {', '.join(KINDS)}"})
    given: dict[str, Any] = {name: getattr(wanted, name) for name in SETTINGS}
    wrong = [name for name, value in given.items() if value is not None and name not in kind.settings]
    if wrong:
        raise InvalidArgument.of_fields({wrong[0]: f"means nothing to {kind.name}"})
    chosen = {
        name: DEFAULTS.get((kind.name, name), DEFAULTS.get(name)) if given[name] is None else given[name]
        for name in kind.settings
    }
    return ApiFaultRow(
        id=f"{kind.name}-{secrets.token_hex(2)}",
        kind=kind.name,
        name=wanted.name or "*",
        count=1 if wanted.count is None and wanted.at_step is not None else wanted.count,
        probability=wanted.probability,
        seed=wanted.seed,
        method=chosen.get("method"),
        after=chosen.get("after"),
        seconds=chosen.get("seconds"),
        rate=chosen.get("limit"),
        at_step=chosen.get("at_step"),
        create_time=now,
    )


def _recent(rule: ApiFaultRow, now: float) -> list[float]:
    """When the requests were let through that count against the limit now."""
    return [moment for moment in rule.recent if now - WINDOW_SECONDS < moment <= now]
