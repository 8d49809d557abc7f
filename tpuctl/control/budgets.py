"""Has a project spent what it may? Its slices at list prices, this calendar month (UTC).

A budget warns. One that stops refuses new slices once it is spent, and gives notice to those that there are: their jobs
save their state, and then they are PREEMPTED.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from tpuctl.api.errors import FailedPrecondition, InvalidArgument
from tpuctl.api.names import check_project
from tpuctl.api.nodes import NodeState
from tpuctl.api.usage import Budget, UsageBy
from tpuctl.control.preemption import notice, notified
from tpuctl.control.usage import summed
from tpuctl.store import NodeRow, Reader, Store, Transaction
from tpuctl.store.rows import BudgetRow

MOST = 1e9
"""Dollars."""


def month_start(now: float) -> float:
    """When the calendar month began, in seconds since the epoch."""
    return datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def spent(reader: Reader, project: str) -> float:
    """US dollars this month; what has no known price costs nothing."""
    start = month_start(reader.now)
    rows = reader.usages_since(project, start)
    return sum(row.cost or 0.0 for row in summed(rows, UsageBy.PROJECT, start, reader.now))


def check(reader: Reader, project: str) -> None:
    """Raises FailedPrecondition if the project's budget is spent and stops."""
    row = find(reader, project)
    if row is not None and row.stop and spent(reader, project) >= row.amount:
        raise FailedPrecondition(
            f"the budget of project {project}, ${row.amount:,.2f} a month, is spent; an admin can raise it: "
            "tpuctl budget set"
        )


def find(reader: Reader, project: str) -> BudgetRow | None:
    return next((row for row in reader.budgets() if row.project == project), None)


def set_budget(change: Transaction, wanted: Budget) -> None:
    """Raises InvalidArgument."""
    check_project(wanted.project)
    if not 0 < wanted.amount <= MOST:
        raise InvalidArgument.of_fields({"amount": f"{wanted.amount:g} is not between 0 and {MOST:,.0f} dollars"})
    known = find(change, wanted.project)
    if known is None:
        change.insert(BudgetRow(wanted.project, wanted.amount, wanted.stop, change.now))
    else:
        change.replace(known, amount=wanted.amount, stop=wanted.stop)
    change.event(f"budgets/{wanted.project}", "set", f"${wanted.amount:,.2f} a month")


def view(reader: Reader, project: str) -> Budget | None:
    row = find(reader, project)
    if row is None:
        return None
    return Budget(project=project, amount=row.amount, stop=row.stop, spent=spent(reader, project))


def stop_what_is_spent(store: Store, nodes: Collection[NodeRow], grace: float) -> None:
    """Give notice to the slices of projects whose budgets are spent and stop. ``nodes`` are all there are."""
    with store.read() as reader:
        over = {row.project for row in reader.budgets() if row.stop and spent(reader, row.project) >= row.amount}
    for node in nodes:
        if node.project not in over or node.state is not NodeState.READY or notified(node):
            continue
        with store.change() as change:
            current = change.node(uid=node.uid)
            if current is not None and current.state is NodeState.READY and not notified(current):
                notice(change, current, f"the budget of project {node.project} is spent", grace)
