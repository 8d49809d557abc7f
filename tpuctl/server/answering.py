"""What both fronts answer a call with: what its handler does, unless a fault of the API strikes it."""

from __future__ import annotations

from tpuctl.api.model import Model
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.queued import QueuedResource
from tpuctl.control.access import Principal
from tpuctl.control.fault_errors import Asked
from tpuctl.control.plane import ControlPlane
from tpuctl.server.handlers import HANDLERS, Call
from tpuctl.server.methods import Method
from tpuctl.server.permissions import permit

CHOSEN_ID = {"nodes.create": "nodeId", "queuedResources.create": "queuedResourceId"}
"""Where a create says what the new resource is called."""


def answer(plane: ControlPlane, method: Method, call: Call, caller: Principal) -> Model:
    """Raises ApiError: that ``caller`` may not, or not so often, the handler's own, or the fault's."""
    permit(caller, method, call)
    if not (plane.api_faults.any or plane.rates.any):
        return HANDLERS[method.id](plane, call)
    asked = _asked(method, call)
    plane.rates.count(asked)
    struck = plane.api_faults.on_request(asked)
    if struck is not None:
        raise struck
    answered = HANDLERS[method.id](plane, call)
    struck = plane.api_faults.on_answer(asked)
    if struck is not None:
        raise struck
    return answered


def _asked(method: Method, call: Call) -> Asked:
    chosen = call.query.get(CHOSEN_ID.get(method.id, ""), "")
    return Asked(method.id, call.project, call.zone, call.id or chosen, _spec(call.body))


def _spec(body: Model | None) -> NodeSpec | None:
    """The node that is asked for."""
    if isinstance(body, QueuedResource) and body.tpu and body.tpu.node_spec:
        return body.tpu.node_spec[0].node
    return body if isinstance(body, NodeSpec) else None
