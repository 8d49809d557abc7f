"""What the control plane knows, kept in SQLite so that it survives its death."""

from tpuctl.store.rows import Event, JobRow, NodeRow, OperationRow, QueuedRow, RequestRow
from tpuctl.store.store import Reader, Store, Transaction

__all__ = ["Event", "JobRow", "NodeRow", "OperationRow", "QueuedRow", "Reader", "RequestRow", "Store", "Transaction"]
