"""What the control plane knows, kept in SQLite so that it survives its death."""

from tpuctl.store.rows import (
    ApiFaultRow,
    Event,
    JobRow,
    NodeRow,
    OperationRow,
    PodRow,
    QueuedRow,
    RequestRow,
    ScheduleRow,
)
from tpuctl.store.store import Reader, Store, Transaction

__all__ = [
    "ApiFaultRow",
    "Event",
    "JobRow",
    "NodeRow",
    "OperationRow",
    "PodRow",
    "QueuedRow",
    "Reader",
    "RequestRow",
    "ScheduleRow",
    "Store",
    "Transaction",
]
