"""When are a job's workers told that their slice is about to be preempted, or to go for maintenance?"""

from __future__ import annotations

from typing import Any

from tpuctl.control.preemption import PREEMPT, leaves_at
from tpuctl.store import NodeRow

NOTICE_SECONDS = 30.0
"""So long before at most, as on Compute Engine."""
STEP = "step"
"""What a fate says that comes when the job on the node has reached a step."""


def notice(node: NodeRow | None, now: float) -> float | None:
    """Seconds until its chips are taken from a slice, if its jobs are to be told of that now."""
    when = None if node is None else leaves_at(node)
    return None if when is None or when - now > NOTICE_SECONDS else max(0.0, when - now)


def step_reached(rows: list[dict[str, float]]) -> tuple[int, int] | None:
    """The first and the last step of which the rows of metrics tell, counted over all epochs."""
    steps = [found for row in rows if (found := _step(row)) is not None]
    return (steps[0], steps[-1]) if steps else None


def _step(row: dict[str, float]) -> int | None:
    if "step" not in row:
        return None
    epochs_before = max(0, int(row.get("epoch", 1)) - 1)
    return epochs_before * int(row.get("steps", 0)) + int(row["step"])


def waits_for_step(node: NodeRow) -> bool:
    """Whether the node is preempted at a step of its job."""
    return any(_at_step(fate) for fate in node.faults)


def due_at_step(node: NodeRow, first: int, last: int, now: float) -> list[dict[str, Any]]:
    """The node's fates once its job has gone from step ``first`` to ``last`` in this attempt.

    A job that has resumed beyond the step does not come to it again.
    """
    return [
        fate | {"due": now + (fate["after"] or 0.0)} if _at_step(fate) and first <= fate[STEP] <= last else fate
        for fate in node.faults
    ]


def _at_step(fate: dict[str, Any]) -> bool:
    return fate["kind"] == PREEMPT and fate.get(STEP) is not None and fate["due"] is None and not fate.get("cleared")
