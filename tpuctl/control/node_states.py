"""What to do about a slice, from the state it should be in and the runtime process there is."""

from __future__ import annotations

from enum import Enum, auto

from backend.host.executor import RuntimeState
from tpuctl.api.nodes import NodeHealth, NodeState


class NodeAction(Enum):
    KEEP = auto()
    START = auto()  # start the runtime
    AWAIT = auto()  # it has been started; end it if it takes too long
    SETTLE = auto()  # the operation under way is done
    FAIL = auto()  # the operation under way has failed
    REPAIR = auto()  # the runtime is gone and should not be
    STOP = auto()  # end the runtime


_ACTIONS: dict[NodeState, dict[RuntimeState, NodeAction]] = {
    state: dict(zip(RuntimeState, actions, strict=True))
    for state, actions in {
        #                      ABSENT             STARTING          READY              ENDED
        NodeState.CREATING:   (NodeAction.START,  NodeAction.AWAIT, NodeAction.SETTLE, NodeAction.FAIL),
        NodeState.READY:      (NodeAction.REPAIR, NodeAction.KEEP,  NodeAction.KEEP,   NodeAction.REPAIR),
        NodeState.REPAIRING:  (NodeAction.START,  NodeAction.AWAIT, NodeAction.SETTLE, NodeAction.REPAIR),
        NodeState.STARTING:   (NodeAction.START,  NodeAction.AWAIT, NodeAction.SETTLE, NodeAction.FAIL),
        NodeState.RESTARTING: (NodeAction.SETTLE, NodeAction.STOP,  NodeAction.STOP,   NodeAction.SETTLE),
        NodeState.REIMAGING:  (NodeAction.SETTLE, NodeAction.STOP,  NodeAction.STOP,   NodeAction.SETTLE),
        NodeState.STOPPING:   (NodeAction.SETTLE, NodeAction.STOP,  NodeAction.STOP,   NodeAction.SETTLE),
        NodeState.STOPPED:    (NodeAction.KEEP,   NodeAction.STOP,  NodeAction.STOP,   NodeAction.KEEP),
        NodeState.TERMINATED: (NodeAction.KEEP,   NodeAction.STOP,  NodeAction.STOP,   NodeAction.KEEP),
        NodeState.PREEMPTED:  (NodeAction.KEEP,   NodeAction.STOP,  NodeAction.STOP,   NodeAction.KEEP),
        NodeState.DELETING:   (NodeAction.SETTLE, NodeAction.STOP,  NodeAction.STOP,   NodeAction.SETTLE),
    }.items()
}  # fmt: skip

SETTLED_STATE: dict[NodeState, NodeState | None] = {
    NodeState.CREATING: NodeState.READY,
    NodeState.REPAIRING: NodeState.READY,
    NodeState.STARTING: NodeState.READY,
    NodeState.RESTARTING: NodeState.STARTING,  # the runtime has ended, and the same operation starts it again
    NodeState.REIMAGING: NodeState.STARTING,
    NodeState.STOPPING: NodeState.STOPPED,
    NodeState.DELETING: None,  # gone
}
"""Where a state leads once its work is done."""

HEALTH: dict[NodeState, NodeHealth] = {
    NodeState.READY: NodeHealth.HEALTHY,
    NodeState.RESTARTING: NodeHealth.UNHEALTHY_MAINTENANCE,
    NodeState.REPAIRING: NodeHealth.TIMEOUT,
    NodeState.TERMINATED: NodeHealth.TIMEOUT,
}


def health_of(state: NodeState, description: str | None) -> NodeHealth | None:
    """A slice that works but has something to say of its health has parts that failed."""
    failed = state is NodeState.READY and description
    return NodeHealth.UNHEALTHY_MAINTENANCE if failed else HEALTH.get(state)


VERBS: dict[str, dict[NodeState, NodeState]] = {
    "start": {NodeState.STOPPED: NodeState.STARTING, NodeState.TERMINATED: NodeState.STARTING},
    "stop": {NodeState.READY: NodeState.STOPPING, NodeState.REPAIRING: NodeState.STOPPING},
    "restart": {NodeState.READY: NodeState.RESTARTING},
    "reimage": {
        NodeState.READY: NodeState.REIMAGING,
        NodeState.STOPPED: NodeState.REIMAGING,
        NodeState.TERMINATED: NodeState.REIMAGING,
    },
    "delete": {state: NodeState.DELETING for state in _ACTIONS if state is not NodeState.DELETING},
}
"""What a user may ask for in which state, and the state that asking leads to."""

UPDATABLE = frozenset({NodeState.READY, NodeState.STOPPED})


def next_action(state: NodeState, runtime: RuntimeState) -> NodeAction:
    return _ACTIONS[state][runtime]


def is_settled(state: NodeState) -> bool:
    """Whether nothing is under way."""
    return state not in SETTLED_STATE
