"""Reading request bodies."""

from __future__ import annotations

import json
from typing import TypeVar

from starlette.requests import Request

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.model import Model

MAX_BODY_BYTES = 8 << 20
AnyModel = TypeVar("AnyModel", bound=Model)


async def body(request: Request, kind: type[AnyModel]) -> AnyModel:
    """The body as a model; an empty one counts as ``{}``. Raises InvalidArgument or pydantic's ValidationError."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise InvalidArgument(f"the request body is larger than {MAX_BODY_BYTES} bytes")
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request body is not JSON: {error}") from error
    return kind.model_validate(value)
