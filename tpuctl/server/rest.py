"""The Cloud TPU API over HTTP: routes for all versions, made from the table of methods."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from anyio import CapacityLimiter, to_thread
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tpuctl.api.errors import InvalidArgument, Unimplemented
from tpuctl.control.access import Principal
from tpuctl.control.plane import ControlPlane
from tpuctl.server.answering import answer
from tpuctl.server.bodies import json_body
from tpuctl.server.handlers import HANDLERS, Call, unimplemented
from tpuctl.server.methods import METHODS, STANDARD_QUERY, VERSIONS, Method
from tpuctl.server.replies import json_reply
from tpuctl.server.versions import read, shown

OURS = {"nodes.create": frozenset({"numSlices"})}
"""Query parameters that Cloud TPU does not have: several slices joined over the data-centre network, as one node."""
QUICK, WAITING = 4, 100
"""How many calls are answered at once: more would only take turns, but those that wait for something take none."""
Endpoint = Callable[[Request], Awaitable[Response]]


def routes(plane: ControlPlane) -> list[Mount]:
    quick, waiting = CapacityLimiter(QUICK), CapacityLimiter(WAITING)

    def limiter(method: Method) -> CapacityLimiter:
        return waiting if method.id == "operations.wait" else quick

    return [Mount(f"/{version}", routes=_routes(plane, version, limiter)) for version in VERSIONS]


def _routes(plane: ControlPlane, version: str, limiter: Callable[[Method], CapacityLimiter]) -> list[Route]:
    """A path with a verb comes before the one that it extends."""
    made = [
        _route(
            method,
            _endpoint(plane, method, version, limiter(method))
            if version in method.versions
            else _absent(method, version),
        )
        for method in sorted(METHODS, key=lambda method: ":" not in method.path)
    ]
    return [*made, Route("/projects/{rest:path}:{verb}", _unknown(version), methods=["POST"])]


def _route(method: Method, endpoint: Endpoint) -> Route:
    return Route(f"/projects/{{project}}/locations{method.path}", endpoint, methods=[method.http])


def _endpoint(plane: ControlPlane, method: Method, version: str, limiter: CapacityLimiter) -> Endpoint:
    if method.id not in HANDLERS:
        return _absent(method, version)
    allowed = frozenset(method.parameters(version)) | OURS.get(method.id, frozenset())

    async def respond(request: Request) -> Response:
        query = parameters(request.query_params, allowed)
        body = None
        if method.request is not None:
            body = read(await json_body(request), method.request, version, method.body)
        call = Call(version, **request.path_params, query=query, body=body)
        caller: Principal = request.state.caller
        return await to_thread.run_sync(
            lambda: json_reply(shown(answer(plane, method, call, caller), version)), limiter=limiter
        )

    return respond


def parameters(query: Mapping[str, str], allowed: frozenset[str]) -> dict[str, str]:
    """The method's own parameters in camel case. Raises InvalidArgument for those that it does not have."""
    found = {}
    for name, value in query.items():
        camel = to_camel(name)
        if camel in allowed:
            found[camel] = value
        elif name not in STANDARD_QUERY:
            text = (
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
                f"Field '{name}' could not be found in request message."
            )
            violation = {"description": text}
            detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
            raise InvalidArgument(text, [detail])
    return found


def _absent(method: Method, version: str) -> Endpoint:
    """Answers that ``version`` does not have the method, or that we do not."""

    async def answer(_: Request) -> Response:
        raise unimplemented(method, version)

    return answer


def _unknown(version: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        collection = re.search(r"/(\w+)/[^/]*$", "/" + request.path_params["rest"])
        what = f"{collection[1]}." if collection else ""
        raise Unimplemented(f"Method {what}{request.path_params['verb']} is not a method of tpu {version}")

    return answer
