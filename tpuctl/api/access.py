"""Who may do what: roles, and tokens as tpuctl's own API has them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tpuctl.api.model import Model

EVERY_PROJECT = "*"


class Role(StrEnum):
    """Each may do what those before it may: look; make, change and delete; fault the API and give access."""

    VIEWER = "viewer"
    USER = "user"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Token(Model):
    """What a principal may do, by project (``*``: on all). ``token`` itself is told only when it is made."""

    id: str = ""
    principal: str
    roles: dict[str, Role] = Field(min_length=1, max_length=1000)
    create_time: datetime | None = None
    token: str | None = None


class TokenList(Model):
    tokens: list[Token] = Field(default_factory=list)
