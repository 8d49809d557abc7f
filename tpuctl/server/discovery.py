"""The API's own description, for clients that are made from it: one document a version, made from the methods."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, get_args, get_origin

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tpuctl.api.errors import NotFound
from tpuctl.api.messages import fields
from tpuctl.api.model import Duration, Int64, Model
from tpuctl.control.plane import ControlPlane
from tpuctl.server.handlers import HANDLERS
from tpuctl.server.methods import STANDARD_QUERY, VERSIONS, Method, in_version, methods

PATH = "/$discovery/rest"
DEFAULT_VERSION = "v2alpha1"
"""Of a request that names none, as Cloud TPU has it."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
Json = dict[str, Any]


def route(plane: ControlPlane) -> Route:
    async def discover(request: Request) -> Response:
        version = request.query_params.get("version") or DEFAULT_VERSION
        if version not in VERSIONS:
            raise NotFound(f"there is no version {version!r} of the API; versions are {', '.join(VERSIONS)}")
        url = plane.url or str(request.base_url)
        return JSONResponse(await run_in_threadpool(document, version, url.rstrip("/") + "/"))

    return Route(PATH, discover, methods=["GET"])


def document(version: str, root_url: str) -> Json:
    """The discovery document of ``version``, served at ``root_url``."""
    found = [method for method in methods(version) if method.id in HANDLERS]
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"tpu:{version}",
        "name": "tpu",
        "canonicalName": "TPU",
        "version": version,
        "title": "Cloud TPU API",
        "description": "TPU API provides customers with access to Google TPU technology.",
        "ownerDomain": "google.com",
        "ownerName": "Google",
        "protocol": "rest",
        "rootUrl": root_url,
        "baseUrl": root_url,
        "servicePath": "",
        "basePath": "",
        "batchPath": "batch",
        "fullyEncodeReservedExpansion": True,
        "version_module": True,
        "auth": {"oauth2": {"scopes": {SCOPE: {"description": "See, edit, configure, and delete your data"}}}},
        "parameters": {name: {"type": "string", "location": "query"} for name in sorted(STANDARD_QUERY)},
        "resources": {"projects": {"resources": {"locations": _locations(found, version)}}},
        "schemas": schemas(found, version),
    }


def _locations(found: list[Method], version: str) -> Json:
    made: Json = {"methods": {}, "resources": {}}
    for method in found:
        collection, _, verb = method.id.rpartition(".")
        place = made["resources"].setdefault(collection, {"methods": {}}) if collection else made
        place["methods"][verb] = _method(method, version)
    return made


def _method(method: Method, version: str) -> Json:
    flat = f"{version}/projects/{{projectsId}}/locations{method.path}"
    flat = flat.replace("{zone}", "{locationsId}")
    parts = flat.removeprefix(f"{version}/").split("/")
    ends_in_name = "{" in parts[-1]
    verb = parts[-1].partition("}")[2]
    resource = parts if ends_in_name else parts[:-1]
    parameter = _resource_parameter(method, ends_in_name)
    flat = flat.replace("{id}", f"{{{parts[-2]}Id}}")
    path = f"{version}/{{+{parameter}}}{verb}" if ends_in_name else f"{version}/{{+{parameter}}}/{parts[-1]}"
    pattern = "/".join("[^/]+" if "{" in part else part for part in resource)
    message = method.message(version)
    made: Json = {
        "id": f"tpu.projects.locations.{method.id}",
        "description": f"{method.full_name(version)}.",
        "httpMethod": method.http,
        "path": path,
        "flatPath": flat,
        "parameterOrder": [parameter],
        "parameters": {
            parameter: {"type": "string", "required": True, "location": "path", "pattern": f"^{pattern}$"},
            **{name: _parameter(name, kind) for name, kind in method.parameters(version).items()},
        },
        "response": {"$ref": wire_name(in_version(method.response, version))},
        "scopes": [SCOPE],
    }
    return made if message is None else made | {"request": {"$ref": wire_name(message)}}


def _resource_parameter(method: Method, ends_in_name: bool) -> str:
    """What Google calls the resource in the path: the one meant is its name, the one above it the parent."""
    if method.id == "generateServiceIdentity":
        return "parent"
    return "name" if ends_in_name or method.id in ("list", "operations.list") else "parent"


def _parameter(name: str, kind: str) -> Json:
    formats = {"integer": {"format": "int32"}, "string": {"format": "google-fieldmask"} if name == "updateMask" else {}}
    return {"type": kind, "location": "query", **formats.get(kind, {})}


def schemas(found: list[Method], version: str) -> Json:
    """Every message that the methods take or answer with, and those in them."""
    made: Json = {}
    queue = [kind for method in found for kind in (in_version(method.response, version), method.message(version))]
    while queue:
        kind = queue.pop()
        if kind is None or wire_name(kind) in made:
            continue
        there = fields(kind, version)
        made[wire_name(kind)] = {
            "id": wire_name(kind),
            "type": "object",
            "properties": {name: _schema(field.annotation, version) for name, field in there.items()},
        }
        queue += [in_version(field.kind, version) for field in there.values() if field.kind is not None]
    return dict(sorted(made.items()))


def wire_name(kind: type[Model]) -> str:
    return kind.wire_name or kind.__name__


def _schema(annotation: Any, version: str) -> Json:
    """A field's type as discovery documents tell it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], version)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], version)}
    if arguments and annotation not in _TEXTS:  # optional or annotated: what matters comes first
        return _schema(arguments[0], version)
    return _leaf(annotation, version)


def _leaf(annotation: Any, version: str) -> Json:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return {"$ref": wire_name(in_version(annotation, version))}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": "string", "enum": [member.value for member in annotation]}
    return dict(_TEXTS.get(annotation) or _SCALARS.get(annotation) or {"type": "any"})


_TEXTS: dict[Any, Json] = {
    Int64: {"type": "string", "format": "int64"},
    Duration: {"type": "string", "format": "google-duration"},
}
_SCALARS: dict[Any, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    float: {"type": "number", "format": "double"},
    datetime: {"type": "string", "format": "google-datetime"},
}
