"""What Cloud TPU's clients ask of Compute, Resource Manager and OAuth; nothing more of those is here."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tpuctl.api.errors import ApiError, InvalidArgument
from tpuctl.api.model import Model
from tpuctl.control import project_metadata
from tpuctl.control.access import role_for
from tpuctl.control.catalogue import project_number
from tpuctl.control.plane import ControlPlane
from tpuctl.server.bodies import body
from tpuctl.server.guarded import guarded

MAX_FORM_BYTES = 64 << 10
TOKEN_SECONDS = 3600
COMPUTE = "/compute/v1/projects/{project}"
Json = dict[str, Any]


class Item(Model):
    key: str = Field(min_length=1, max_length=128)
    value: str = Field(default="", max_length=256 << 10)


class Metadata(Model):
    kind: str = ""
    fingerprint: str = ""
    items: list[Item] = Field(default_factory=list, max_length=1000)


class Asked(Model):
    permissions: list[str] = Field(default_factory=list, max_length=1000)


def routes(plane: ControlPlane) -> list[Route]:
    """Before those of Cloud TPU: Resource Manager's paths begin like those of its v1."""

    def get_compute(request: Request) -> Response:
        return JSONResponse(_compute_project(plane, request.path_params["project"]))

    async def set_metadata(request: Request) -> Response:
        wanted = await body(request, Metadata)
        return JSONResponse(await run_in_threadpool(_set_metadata, plane, request.path_params["project"], wanted))

    def get_project(request: Request) -> Response:
        return JSONResponse(_managed_project(request.path_params["project"]))

    async def test_permissions(request: Request) -> Response:
        asked, project = await body(request, Asked), request.path_params["project"]
        caller = request.state.caller
        held = [name for name in asked.permissions if caller.may(project, role_for(name))]
        return JSONResponse({"permissions": held} if held else {})

    async def token(request: Request) -> Response:
        return await _token(plane, request)

    return [
        guarded("GET", COMPUTE, "compute.projects.get", get_compute),
        guarded(
            "POST",
            f"{COMPUTE}/setCommonInstanceMetadata",
            "compute.projects.setCommonInstanceMetadata",
            set_metadata,
        ),
        Route("/v1/projects/{project}:testIamPermissions", test_permissions, methods=["POST"]),
        Route("/v3/projects/{project}:testIamPermissions", test_permissions, methods=["POST"]),
        guarded("GET", "/v1/projects/{project}", "resourcemanager.projects.get", get_project),
        guarded("GET", "/v3/projects/{project}", "resourcemanager.projects.get", get_project),
        Route("/token", token, methods=["POST"]),
    ]


def _compute_project(plane: ControlPlane, project: str) -> Json:
    found = project_metadata.read(plane.store, project)
    return {
        "kind": "compute#project",
        "id": project_number(project),
        "name": project,
        "selfLink": f"https://www.googleapis.com/compute/v1/projects/{project}",
        "defaultServiceAccount": f"{project_number(project)}-compute@developer.gserviceaccount.com",
        "commonInstanceMetadata": {
            "kind": "compute#metadata",
            "fingerprint": project_metadata.fingerprint(found),
            "items": [{"key": key, "value": value} for key, value in found.items()],
        },
    }


def _set_metadata(plane: ControlPlane, project: str, wanted: Metadata) -> Json:
    items = {item.key: item.value for item in wanted.items}
    if len(items) < len(wanted.items):
        raise InvalidArgument("Invalid value for field 'resource.items': a key is there twice")
    project_metadata.write(plane.store, project, items, wanted.fingerprint)
    link = f"https://www.googleapis.com/compute/v1/projects/{project}"
    name = f"operation-{project_metadata.fingerprint(items)}"
    return {
        "kind": "compute#operation",
        "name": name,
        "operationType": "compute.projects.setCommonInstanceMetadata",
        "targetLink": link,
        "selfLink": f"{link}/global/operations/{name}",
        "status": "DONE",
        "progress": 100,
    }


def _managed_project(project: str) -> Json:
    number = project_number(project)
    return {
        "name": project,
        "projectId": project,
        "projectNumber": number,
        "lifecycleState": "ACTIVE",
        "labels": {},
    }


async def _token(plane: ControlPlane, request: Request) -> Response:
    """An access token for a refresh token: both are the one token of a principal, so that nothing new is given."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM_BYTES:
            return _refused("invalid_request", f"the form is larger than {MAX_FORM_BYTES} bytes")
    form = parse_qs(data.decode("utf-8", "replace"))
    if form.get("grant_type") != ["refresh_token"]:
        return _refused("unsupported_grant_type", "only refresh_token is known here; see `tpuctl env`")
    (given,) = form.get("refresh_token", [""])[:1]
    try:
        plane.access.caller(f"Bearer {given}", request.client.host if request.client else "")
    except ApiError:
        return _refused("invalid_grant", "the refresh token is not a token of this control plane")
    kept = {"cache-control": "no-store"}
    return JSONResponse({"access_token": given, "expires_in": TOKEN_SECONDS, "token_type": "Bearer"}, headers=kept)


def _refused(error: str, text: str) -> Response:
    return JSONResponse({"error": error, "error_description": text}, status_code=400)
