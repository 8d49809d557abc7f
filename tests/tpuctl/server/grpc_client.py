"""Calls over gRPC as they are on the wire: a path, a message or bytes, and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud.location import locations_pb2
from google.cloud.tpu_v2 import types
from google.longrunning import operations_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

PLACE = "projects/local/locations/us-central2-b"
TPU, OPERATIONS = "google.cloud.tpu.v2.Tpu", "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"
NODE = {"accelerator_type": "v4-8", "runtime_version": "v2-alpha"}
ENOUGH = 20.0
DETAILS = error_details_pb2
Failed = grpc.RpcError


@dataclass
class Caller:
    """Calls with a token, as google-cloud-tpu does over ``channel``."""

    channel: grpc.Channel
    token: str | None
    metadata: list[tuple[str, str]] = field(default_factory=list)

    def send(self, path: str, request: bytes, within: float | None = ENOUGH) -> Any:
        """The call under way; its result is the reply's bytes."""
        known = [("authorization", f"Bearer {self.token}")] if self.token else []
        return self.channel.unary_unary(path).future(request, timeout=within, metadata=[*known, *self.metadata])

    def tpu(self, rpc: str, within: float | None = ENOUGH, **fields: Any) -> Any:
        """A call of v2 by its name and its request's fields."""
        request = getattr(types, f"{rpc}Request")
        data = self.send(f"/{TPU}/{rpc}", request.serialize(request(**fields)), within).result()
        reply = getattr(types, f"{rpc}Response", types.Node if rpc == "GetNode" else None)
        return operations_pb2.Operation.FromString(data) if reply is None else reply.deserialize(data)

    def operations(self, rpc: str, within: float | None = ENOUGH, **fields: Any) -> Any:
        request: Message = getattr(operations_pb2, f"{rpc}Request")(**fields)
        data = self.send(f"/{OPERATIONS}/{rpc}", request.SerializeToString(), within).result()
        kind = operations_pb2.ListOperationsResponse if rpc.startswith("List") else operations_pb2.Operation
        return kind.FromString(data)

    def location(self, name: str) -> Any:
        request = locations_pb2.GetLocationRequest(name=name).SerializeToString()
        return locations_pb2.Location.FromString(self.send(f"/{LOCATIONS}/GetLocation", request).result())


def status_of(error: Any) -> Any:
    """The google.rpc.Status in an error's trailers."""
    (found,) = (value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin")
    return status_pb2.Status.FromString(found)


def told(error: Any) -> tuple[str, str]:
    return error.code().name, error.details()
