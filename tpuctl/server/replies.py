"""Models and errors as HTTP responses."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from backend.errors import TpuError
from tpuctl.api.errors import ApiError, Internal, InvalidArgument, NotFound, Unimplemented, from_status
from tpuctl.api.model import Model

log = logging.getLogger("tpuctl.server")


def reply(model: Model) -> Response:
    return Response(model.to_bytes(), media_type="application/json")


def json_reply(value: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def empty_reply() -> Response:
    return JSONResponse({})


def error_reply(error: ApiError) -> Response:
    headers = {"www-authenticate": "Bearer"} if error.http_status == 401 else None
    return JSONResponse(error.to_body(), status_code=error.http_status, headers=headers)


def invalid(error: ValidationError) -> InvalidArgument:
    """What is wrong with a body, field by field."""
    return InvalidArgument.of_fields(
        {".".join(str(part) for part in found["loc"]): found["msg"] for found in error.errors(include_url=False)}
    )


def api_error(error: Exception) -> ApiError:
    """What the caller is told of ``error``, whatever it is."""
    match error:
        case ApiError():
            return error
        case TpuError():
            return from_status({"code": error.code, "message": error.message})
        case ValidationError():
            return invalid(error)
    return Internal(f"{type(error).__name__}: {error} (this is a bug; the server log has its trace)")


def on_error(_: Request, error: Exception) -> Response:
    return error_reply(api_error(error))


def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code == 405:
        return error_reply(Unimplemented(f"{request.method} {request.url.path} is not a method of this API"))
    return error_reply(NotFound(f"{request.method} {request.url.path} is not a path of this API"))


def on_failure(request: Request, error: Exception) -> Response:
    log.error("request failed", exc_info=error, extra={"method": request.method, "path": request.url.path})
    return error_reply(api_error(error))


HANDLERS = {
    ApiError: on_error,
    TpuError: on_error,
    ValidationError: on_error,
    HTTPException: on_http_error,
    Exception: on_failure,
}
