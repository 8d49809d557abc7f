"""Lists a page at a time: pageSize and pageToken, where the token is the place to read on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tpuctl.api.errors import InvalidArgument

MAX_PAGE = 1000
MAX_DIGITS = 10
Item = TypeVar("Item")


def place(query: Mapping[str, str]) -> tuple[int, int]:
    """Where the page asked for starts, and how much it holds at most. Raises InvalidArgument."""
    return _number(query, "pageToken"), min(_number(query, "pageSize") or MAX_PAGE, MAX_PAGE)


def page(items: Sequence[Item], query: Mapping[str, str]) -> tuple[list[Item], str | None]:
    """The page asked for and the token of the next one. Raises InvalidArgument."""
    first, size = place(query)
    end = first + size
    return list(items[first:end]), str(end) if end < len(items) else None


def read_page(read: Callable[[int, int], list[Item]], query: Mapping[str, str]) -> tuple[list[Item], str | None]:
    """The same of what ``read`` finds: so many items from a place on. Raises InvalidArgument."""
    first, size = place(query)
    found = read(first, size + 1)
    return found[:size], str(first + size) if len(found) > size else None


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < MAX_DIGITS):
        raise InvalidArgument.of_fields({name: f"{text!r} is not valid"})
    return int(text)
