"""How does Google say that a field has a value of the wrong type? As its JSON parser does, with the field's path."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.messages import fields
from tpuctl.api.model import Model, WireEnum

SCALARS = {
    "string_type": "TYPE_STRING",
    "string_unicode": "TYPE_STRING",
    "bool_type": "TYPE_BOOL",
    "bool_parsing": "TYPE_BOOL",
    "int_type": "TYPE_INT32",
    "int_parsing": "TYPE_INT32",
    "int_parsing_size": "TYPE_INT32",
    "int_from_float": "TYPE_INT32",
    "float_type": "TYPE_DOUBLE",
    "float_parsing": "TYPE_DOUBLE",
}
"""What pydantic's kinds of error were to be."""
TIMESTAMP = "type.googleapis.com/google.protobuf.Timestamp"
DURATION = "type.googleapis.com/google.protobuf.Duration"
ILLEGAL = {
    TIMESTAMP: "Illegal timestamp format; timestamps must end with 'Z' or have a valid timezone offset.",
    DURATION: "Illegal duration format; duration must end with 's'",
}
LONGEST = 200


def invalid_values(error: ValidationError, kind: type[Model], version: str, at: str) -> InvalidArgument:
    """All that is wrong with a message of ``kind``, which is ``at`` that place in the request."""
    violations = [_told(found, kind, version, at) for found in error.errors(include_url=False)]
    listed = [{"field": where, "description": text} for where, text in violations]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed}
    return InvalidArgument("\n".join(text for _, text in violations), [detail])


def _told(found: ErrorDetails, kind: type[Model], version: str, at: str) -> tuple[str, str]:
    """Where, and what."""
    *_, (where, annotation) = _walk(found["loc"], kind, version, at)
    value, what = found["input"], found["type"]
    if isinstance(value, list) and what != "list_type":
        return where, f"Invalid JSON payload received. {_cannot_be_list(found['loc'], where)}"
    expected = _expected(found, annotation, version)
    if expected is None:
        return where, f"{where}: {found['msg']}"
    reason = ILLEGAL.get(expected)
    if reason is not None:
        told = f"Field '{found['loc'][-1]}', {reason}"
    elif isinstance(value, dict) and expected in SCALARS.values():
        told = "Starting an object on a scalar field"
    else:
        told = json.dumps(value, default=str)[:LONGEST]
    return where, f"Invalid value at '{where}' ({expected}), {told}"


def _cannot_be_list(loc: tuple[int | str, ...], where: str) -> str:
    if not loc:
        return 'Unknown name "": Root element must be a message.'
    parent = f" at '{where.rpartition('.')[0]}'" if "." in where else ""
    return f'Unknown name "{loc[-1]}"{parent}: Proto field is not repeating, cannot start list.'


def _expected(found: ErrorDetails, annotation: Any, version: str) -> str | None:
    """The name of the type that was to be there; None if its type is not what is wrong with it."""
    what = found["type"]
    if what.startswith("datetime"):
        return TIMESTAMP
    if what == "string_pattern_mismatch":
        return DURATION if "s$" in str(found.get("ctx", {}).get("pattern")) else "TYPE_INT64"
    if what in ("enum", "model_type", "model_attributes_type", "dict_type", "list_type"):
        return _type_name(annotation, version)
    return SCALARS.get(what)


def _walk(loc: tuple[int | str, ...], kind: type[Model], version: str, at: str) -> Iterator[tuple[str, Any]]:
    """The path of each part of ``loc`` in snake case, and what is to be there."""
    annotation: Any = kind
    yield at, annotation
    for part in loc:
        inner = _inner(annotation)
        if isinstance(part, int):
            at, annotation = f"{at}[{part}]", inner
        elif isinstance(inner, type) and issubclass(inner, Model):
            known = fields(inner, version)
            field = known.get(part) or next((one for one in known.values() if one.name == part), None)
            at = f"{at}.{part if field is None else field.name}".lstrip(".")
            annotation = None if field is None else field.annotation
        else:  # an entry of a map
            at, annotation = f"{at}[{part!r}]", None
        yield at, annotation


def _inner(annotation: Any) -> Any:
    """What an annotation is about: without None, without what it is annotated with, and one for a list of them."""
    if get_origin(annotation) is Annotated:
        return _inner(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return _inner(next(one for one in get_args(annotation) if one is not type(None)))
    return _inner(get_args(annotation)[0]) if get_origin(annotation) is list else annotation


def _type_name(annotation: Any, version: str) -> str:
    inner = _inner(annotation)
    if isinstance(inner, type) and issubclass(inner, (Model, WireEnum)):
        wire = getattr(inner, "wire_name", "") or inner.__name__
        return f"type.googleapis.com/google.cloud.tpu.{version}.{wire}"
    return "Map" if get_origin(inner) is dict else "TYPE_STRING"
