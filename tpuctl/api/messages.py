"""Which fields has a message in which version of the API? What is not among them is refused, and never sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.model import Model, Only


@dataclass(frozen=True)
class WireField:
    """A field of a message; ``kind`` is the message that it, or each of its elements, is."""

    name: str
    annotation: Any
    kind: type[Model] | None


@cache
def fields(kind: type[Model], version: str) -> dict[str, WireField]:
    """The fields of ``kind`` in ``version``, by their names on the wire."""
    found = {}
    for name, info in kind.model_fields.items():
        limits = [*(one for one in info.metadata if isinstance(one, Only)), *_limits(info.annotation)]
        if all(version in limit.versions for limit in limits):
            found[info.alias or name] = WireField(name, info.annotation, _message(info.annotation))
    return found


def check(value: Any, kind: type[Model], version: str, at: str) -> None:
    """Raises InvalidArgument for fields that the message does not have, as Google's APIs do; ``at`` is where it is."""
    violations = list(_unknown(value, kind, version, at))
    if violations:
        detail = {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [
                {"description": text} | ({"field": where} if where else {}) for where, text in violations
            ],
        }
        raise InvalidArgument("\n".join(text for _, text in violations), [detail])


def without_nulls(value: Any) -> Any:
    """A JSON value without the fields that are null: to proto3-JSON they are not there."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def prune(value: dict[str, Any], kind: type[Model], version: str) -> dict[str, Any]:
    """``value``, what a ``kind`` is in JSON, without what ``version`` does not have."""
    plan = _plan(kind, version)
    return _pruned(value, plan) if plan else value


Plan = dict[str, Any]
"""Of the fields that have to be changed: None to drop one, a plan for what is in it."""


@cache
def _plan(kind: type[Model], version: str) -> Plan:
    there = fields(kind, version)
    plan: Plan = {}
    for name, info in kind.model_fields.items():
        alias = info.alias or name
        inner = there[alias].kind if alias in there else None
        if alias not in there:
            plan[alias] = None
        elif inner is not None and (nested := _plan(inner, version)):
            plan[alias] = nested
    return plan


def _pruned(value: dict[str, Any], plan: Plan) -> dict[str, Any]:
    kept = {}
    for name, inner in value.items():
        change = plan.get(name, ...)
        if change is None:
            continue
        if change is ...:
            kept[name] = inner
        elif isinstance(inner, list):
            kept[name] = [_pruned(one, change) for one in inner]
        else:
            kept[name] = _pruned(inner, change)
    return kept


def _unknown(value: Any, kind: type[Model], version: str, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _unknown(one, kind, version, f"{at}[{number}]")
    elif isinstance(value, dict):
        known = fields(kind, version)
        snake = {field.name: field for field in known.values()}
        for name, inner in value.items():
            field = known.get(name) or snake.get(name)
            if field is None:
                where = f" at '{at}'" if at else ""
                yield at, f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'
            elif field.kind is not None:
                yield from _unknown(inner, field.kind, version, f"{at}.{field.name}" if at else field.name)


def _message(annotation: Any) -> type[Model] | None:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((found for found in map(_message, get_args(annotation)) if found is not None), None)


def _limits(annotation: Any) -> Iterator[Only]:
    for argument in get_args(annotation):
        if isinstance(argument, Only):
            yield argument
