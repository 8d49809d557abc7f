"""Reading what follows the question mark of a request."""

from __future__ import annotations

from starlette.requests import Request

from tpuctl.api.errors import InvalidArgument


def number(request: Request, name: str, default: int) -> int:
    """The whole number, from 0, that the query has under ``name``. Raises InvalidArgument."""
    found = numbers(request, name)
    if len(found) > 1:
        raise InvalidArgument.of_fields({name: "it is one number"})
    return found[0] if found else default


def numbers(request: Request, name: str) -> list[int]:
    """The same of several, parted by commas."""
    text = request.query_params.get(name) or ""
    parts = text.split(",") if text else []
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            raise InvalidArgument.of_fields({name: f"{part!r} is not a whole number from 0"})
    return list(map(int, parts))
