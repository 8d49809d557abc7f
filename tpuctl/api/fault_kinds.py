"""Which faults can the API of a control plane be told to have? The one table of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CREATES = ("nodes.create", "queuedResources.create")
NODE_CREATES = ("nodes.create",)


class Point(StrEnum):
    """When it is decided whether a fault strikes."""

    REQUEST = "request"  # before a method does its work
    ANSWER = "answer"  # when it has done its work, and has yet to say so
    OPERATION = "operation"  # when an operation begins
    NODE = "node"  # when a node is made, and for the nodes that are there when the fault is
    QUEUE = "queue"  # when a queued resource is made


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault. ``subjects`` are the methods that it can strike, at once or in their operations; none: all.

    ``settings`` are those of ApiFault that mean something to it, beside name, count, probability and seed.
    """

    name: str
    point: Point
    help: str
    subjects: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        FaultKind("stockout", Point.REQUEST, "Creating a node is refused: the zone has no more capacity.",
                  NODE_CREATES),
        FaultKind("stockout-later", Point.OPERATION,
                  "Creating a node begins, and then fails: the zone has no more capacity.", NODE_CREATES, ("seconds",)),
        FaultKind("quota", Point.REQUEST, "Creating a node is refused: the project's quota is exhausted.", CREATES),
        FaultKind("reservation", Point.OPERATION,
                  "Creating a node begins, and then fails: too little capacity is reserved.", NODE_CREATES,
                  ("seconds",)),
        FaultKind("rate-limit", Point.REQUEST, "Only so many nodes can be created a minute (--limit).", NODE_CREATES,
                  ("limit",)),
        FaultKind("conflict", Point.ANSWER, "A create is done, but answered with 409: it exists already.", CREATES),
        FaultKind("unavailable", Point.REQUEST, "A request is answered with 503 (--method: only this one).", (),
                  ("method",)),
        FaultKind("slow", Point.OPERATION, "An operation takes so many seconds at least (--seconds).", (),
                  ("method", "seconds")),
        FaultKind("endless", Point.OPERATION, "An operation is never done, until the fault is cleared.", (),
                  ("method",)),
        FaultKind("vanish", Point.NODE, "A node that is READY is suddenly gone (--after).", (), ("after",)),
        FaultKind("preempt", Point.NODE, "A node that is READY is preempted (--after, --at-step).", (),
                  ("after", "at_step")),
        FaultKind("unhealthy", Point.NODE, "A node that is READY is unhealthy for a while (--after, --seconds).", (),
                  ("after", "seconds")),
        FaultKind("late", Point.QUEUE, "A queued resource waits so many seconds for its nodes (--seconds).", (),
                  ("seconds",)),
        FaultKind("metadata", Point.NODE, "The metadata server of a node's hosts does not answer for a while.", (),
                  ("after", "seconds")),
    )
}  # fmt: skip
