"""Endpoints that a caller needs a permission for: who lacks it is refused before anything is read or done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from tpuctl.api.access import EVERY_PROJECT
from tpuctl.api.names import default_project
from tpuctl.control.access import check

Endpoint = Callable[[Request], Any]
ANYWHERE = "tpuctl.slices.list"
"""Of a path that names no project: the query does, or it is the default one."""


def guarded(method: str, path: str, permission: str, endpoint: Endpoint) -> Route:
    """A route for those who have ``permission`` on the path's project; where it names none, on all projects."""
    if inspect.iscoroutinefunction(endpoint):

        async def respond(request: Request) -> Any:
            _check(request, permission)
            return await endpoint(request)

        return Route(path, respond, methods=[method])

    def answer(request: Request) -> Any:
        _check(request, permission)
        return endpoint(request)

    return Route(path, answer, methods=[method])


def _check(request: Request, permission: str) -> None:
    project = request.path_params.get("project", EVERY_PROJECT)
    if project == EVERY_PROJECT and permission == ANYWHERE:
        project = request.query_params.get("project") or default_project()
    resource = "projects/" + ("-" if project == EVERY_PROJECT else project)
    check(request.state.caller, project, permission, resource)
