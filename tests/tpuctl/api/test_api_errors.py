"""Errors keep their code, status, message and details over the wire."""

from __future__ import annotations

import pytest

from tpuctl.api import errors
from tpuctl.api.errors import ApiError

# google.rpc codes and the HTTP statuses Google's APIs map them to.
MAPPING = {
    "CANCELLED": (1, 499),
    "INVALID_ARGUMENT": (3, 400),
    "DEADLINE_EXCEEDED": (4, 504),
    "NOT_FOUND": (5, 404),
    "ALREADY_EXISTS": (6, 409),
    "PERMISSION_DENIED": (7, 403),
    "RESOURCE_EXHAUSTED": (8, 429),
    "FAILED_PRECONDITION": (9, 400),
    "ABORTED": (10, 409),
    "UNIMPLEMENTED": (12, 501),
    "INTERNAL": (13, 500),
    "UNAVAILABLE": (14, 503),
    "UNAUTHENTICATED": (16, 401),
}
KINDS = {kind.status: kind for kind in ApiError.__subclasses__()}


def test_every_code_has_its_own_error() -> None:
    assert {name: (kind.code, kind.http_status) for name, kind in KINDS.items()} == MAPPING


@pytest.mark.parametrize("status", MAPPING)
def test_error_survives_an_http_body(status: str) -> None:
    sent = KINDS[status]("what to do", [{"@type": "t", "x": 1}])
    received = errors.from_body(sent.http_status, sent.to_body())
    assert type(received) is KINDS[status]
    assert (received.message, received.details) == ("what to do", [{"@type": "t", "x": 1}])


@pytest.mark.parametrize("status", MAPPING)
def test_error_survives_an_operation(status: str) -> None:
    sent = KINDS[status]("what to do")
    assert type(errors.from_status(sent.to_status())) is KINDS[status]


def test_missing_resource_is_named_as_cloud_tpu_does() -> None:
    error = errors.NotFound.of("projects/p/locations/z/nodes/n")
    assert error.to_body() == {
        "error": {
            "code": 404,
            "message": "Resource 'projects/p/locations/z/nodes/n' was not found",
            "status": "NOT_FOUND",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ResourceInfo",
                    "resourceName": "projects/p/locations/z/nodes/n",
                }
            ],
        }
    }


def test_answer_of_another_server_is_quoted() -> None:
    error = errors.from_body(502, "<html>bad gateway</html>")
    assert "bad gateway" in error.message
