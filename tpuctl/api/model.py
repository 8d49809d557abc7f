"""What all resources share: proto3-JSON habits that Cloud TPU's clients rely on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Only:
    """Marks a field that only some versions of the Cloud TPU API have."""

    versions: frozenset[str]


def only(*versions: str) -> Only:
    return Only(frozenset(versions))


class Model(BaseModel):
    """camelCase out; camelCase or snake_case in; unknown fields ignored.

    ``wire_name`` is the name that Cloud TPU has for the message, where it is not that of the class.
    """

    wire_name: ClassVar[str] = ""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
        ser_json_inf_nan="strings",
        defer_build=True,
    )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the fields that are not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_bytes(self) -> bytes:
        """The same as JSON text. NaN and infinities are strings, as in proto3-JSON."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


class WireEnum(StrEnum):
    """An enum that travels by name and is also accepted as its protobuf number."""

    number: int

    def __new__(cls, name: str, number: int) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.number = number
        return member

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return next((member for member in cls if value in (member.number, str(member.number))), None)


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Int64 = Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^-?[0-9]{1,19}$")]
"""A 64-bit integer: decimal text on the wire, a number accepted as well."""

Duration = Annotated[str, Field(pattern=r"^[0-9]{1,12}(\.[0-9]{1,9})?s$")]
"""A length of time such as ``3600s`` or ``0.5s``."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


Item = TypeVar("Item")
_one_or_many: Callable[[object], object] = _as_list
ListOf = Annotated[list[Item], BeforeValidator(_one_or_many)]
"""A list that also accepts one bare object, as some clients send it."""
