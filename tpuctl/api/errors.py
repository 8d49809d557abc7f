"""What a request can fail with: one exception tree that carries google.rpc codes.

ApiError
├── Cancelled            1
├── InvalidArgument      3
├── DeadlineExceeded     4
├── NotFound             5
├── AlreadyExists        6
├── PermissionDenied     7
├── ResourceExhausted    8
├── FailedPrecondition   9
├── Aborted             10
├── Unimplemented       12
├── Internal            13
├── Unavailable         14
└── Unauthenticated     16
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar, Self

Detail = dict[str, Any]


class ApiError(Exception):
    """An error a client may see.

    ``code`` is the google.rpc.Code number, ``status`` its name, ``http_status`` what the REST front answers with.
    ``message`` says what to do; ``details`` are google.rpc detail objects with an ``@type`` each.
    """

    code: ClassVar[int] = 2
    status: ClassVar[str] = "UNKNOWN"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, details: list[Detail] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or []

    def to_status(self) -> dict[str, Any]:
        """As google.rpc.Status, the form operations and jobs carry."""
        return {"code": self.code, "message": self.message, **({"details": self.details} if self.details else {})}

    def to_body(self) -> dict[str, Any]:
        """As the JSON body of an HTTP error."""
        error = {"code": self.http_status, "message": self.message, "status": self.status}
        return {"error": error | ({"details": self.details} if self.details else {})}


class Cancelled(ApiError):
    code, status, http_status = 1, "CANCELLED", 499


class InvalidArgument(ApiError):
    code, status, http_status = 3, "INVALID_ARGUMENT", 400

    @classmethod
    def of_fields(cls, violations: dict[str, str]) -> Self:
        """One message for all bad fields of a body, with google.rpc.BadRequest as detail."""
        listed = [{"field": field, "description": text} for field, text in violations.items()]
        text = "; ".join(f"{field}: {text}" if field else text for field, text in violations.items())
        return cls(text, [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed}])


def bad_request(text: str) -> InvalidArgument:
    """The error Cloud TPU gives for what it will not do, with an id of its own for each."""
    return InvalidArgument(f"Cloud TPU received a bad request. {text} {error_id()}")


def unable(text: str) -> FailedPrecondition:
    """The error Cloud TPU gives for what it cannot do."""
    return FailedPrecondition(f"Cloud TPU was unable to complete the operation. {text} {error_id()}")


def error_id() -> str:
    return f"[EID: 0x{secrets.token_hex(8)}]"


class DeadlineExceeded(ApiError):
    code, status, http_status = 4, "DEADLINE_EXCEEDED", 504


class NotFound(ApiError):
    code, status, http_status = 5, "NOT_FOUND", 404

    @classmethod
    def of(cls, resource: str) -> Self:
        """The error Cloud TPU gives for a missing resource, named in full."""
        detail = {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": resource}
        return cls(f"Resource '{resource}' was not found", [detail])


class AlreadyExists(ApiError):
    code, status, http_status = 6, "ALREADY_EXISTS", 409

    @classmethod
    def of(cls, resource: str) -> Self:
        """The error Cloud TPU gives for a name that is taken, named in full."""
        detail = {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": resource}
        return cls(f"Resource '{resource}' already exists", [detail])


class PermissionDenied(ApiError):
    code, status, http_status = 7, "PERMISSION_DENIED", 403


class ResourceExhausted(ApiError):
    code, status, http_status = 8, "RESOURCE_EXHAUSTED", 429


class FailedPrecondition(ApiError):
    code, status, http_status = 9, "FAILED_PRECONDITION", 400


class Aborted(ApiError):
    code, status, http_status = 10, "ABORTED", 409


class Conflict(Aborted):
    """What Compute answers if somebody else has changed it meanwhile."""

    http_status = 412


class Unimplemented(ApiError):
    code, status, http_status = 12, "UNIMPLEMENTED", 501


class Internal(ApiError):
    code, status, http_status = 13, "INTERNAL", 500


class Unavailable(ApiError):
    code, status, http_status = 14, "UNAVAILABLE", 503


class Unauthenticated(ApiError):
    code, status, http_status = 16, "UNAUTHENTICATED", 401


_KINDS = ApiError.__subclasses__()
_BY_CODE = {kind.code: kind for kind in _KINDS}
_BY_STATUS = {kind.status: kind for kind in _KINDS}
_BY_HTTP = {kind.http_status: kind for kind in reversed(_KINDS)}


def from_status(status: dict[str, Any]) -> ApiError:
    """The exception for a google.rpc.Status, such as an operation's ``error``."""
    return _BY_CODE.get(status.get("code", 2), ApiError)(status.get("message", ""), status.get("details"))


def from_body(http_status: int, body: Any) -> ApiError:
    """The exception for an HTTP error's JSON body; a body of another shape is quoted."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return _BY_HTTP.get(http_status, ApiError)(f"HTTP {http_status}: {str(body)[:200]}")
    kind = _BY_STATUS.get(error.get("status", ""), _BY_HTTP.get(http_status, ApiError))
    return kind(error.get("message", f"HTTP {http_status}"), error.get("details"))
