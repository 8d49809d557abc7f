"""Operations: what a mutating call returns at once and its caller polls."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from tpuctl.api.model import Duration, Model


class Status(Model):
    """google.rpc.Status."""

    code: int
    message: str = ""
    details: list[dict[str, Any]] | None = None


class OperationMetadata(Model):
    model_config = ConfigDict(extra="allow")

    type: str = Field(default="type.googleapis.com/google.cloud.tpu.v2.OperationMetadata", alias="@type")
    create_time: datetime | None = None
    end_time: datetime | None = None
    target: str = ""
    verb: str = ""
    status_detail: str | None = None
    cancel_requested: bool = False
    api_version: str = "v2"


class Operation(Model):
    """``done`` is always sent. A finished one has exactly one of ``response`` and ``error``."""

    name: str
    metadata: OperationMetadata = OperationMetadata()
    done: bool = False
    response: dict[str, Any] | None = None
    error: Status | None = None


class OperationList(Model):
    wire_name: ClassVar[str] = "ListOperationsResponse"

    operations: list[Operation] = Field(default_factory=list)
    next_page_token: str | None = None
    unreachable: list[str] | None = None


class WaitRequest(Model):
    """``timeout`` is how long the caller would wait at most."""

    wire_name: ClassVar[str] = "WaitOperationRequest"

    timeout: Duration | None = None
