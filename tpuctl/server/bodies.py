"""Reading request bodies."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from starlette.requests import Request

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.model import Model

MAX_BODY_BYTES = 8 << 20
AnyModel = TypeVar("AnyModel", bound=Model)


async def body(request: Request, kind: type[AnyModel]) -> AnyModel:
    """The body as a model; an empty one counts as ``{}``. Raises InvalidArgument or pydantic's ValidationError."""
    return kind.model_validate(await json_body(request))


async def json_body(request: Request) -> Any:
    """The body as a JSON value; an empty one counts as ``{}``. Raises InvalidArgument."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise InvalidArgument(f"the request body is larger than {MAX_BODY_BYTES} bytes")
    try:
        value = json.loads(data or b"{}", parse_constant=_refuse)
        if b"\\u" in data:
            _check_text(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request body is not JSON: {error}") from error
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _check_text(value: Any) -> None:
    """Raises ValueError for an escape of half a character: no text has that, and nobody could be told of it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair at {error.start}") from error
