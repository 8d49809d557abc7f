"""Which method of the API does a gRPC call name, and what are its messages? From the table of methods."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.protobuf.message import Message

from tpuctl.api.errors import Unimplemented
from tpuctl.server.discovery import wire_name
from tpuctl.server.handlers import HANDLERS, unimplemented
from tpuctl.server.methods import METHODS, Method, in_version

VERSIONS = ("v2", "v2alpha1", "v1")
"""Those that google-cloud-tpu has messages of."""
SHARED = "v2"
"""The version in which the services that all versions share are looked up: they are alike in all."""


@dataclass(frozen=True)
class Rpc:
    """A method in a version, with the types of its request and its reply."""

    method: Method
    version: str
    request: type[Message]
    reply: type[Message]


@cache
def rpc(path: str) -> Rpc:
    """What ``/google.cloud.tpu.v2.Tpu/CreateNode`` and the like name. Raises Unimplemented."""
    name = path.lstrip("/").replace("/", ".")
    method, version = _NAMED.get(name) or _raise_unknown(name)
    if version not in method.versions or method.id not in HANDLERS:
        raise unimplemented(method, version)
    kind = in_version(method.response, version)
    request = f"{method.rpc.rpartition('.')[2]}Request"
    return Rpc(method, version, _message(method, version, request), _message(method, version, wire_name(kind)))


def load(version: str) -> ModuleType:
    """The messages of a version, which are then known by their names, too, inside others of any type."""
    return importlib.import_module(f"google.cloud.tpu_{version}.types")


def _message(method: Method, version: str, name: str) -> type[Message]:
    for module in _modules(method, version):
        found = getattr(module, name, None)
        if found is not None:
            kind: type[Message] = found.pb() if hasattr(found, "pb") else found
            return kind
    raise Unimplemented(f"{method.full_name(version)} has no message {name}; use the API over HTTP")


def _modules(method: Method, version: str) -> Iterator[ModuleType]:
    yield from (operations_pb2, locations_pb2, empty_pb2)
    if "." not in method.rpc:
        yield load(version)


def _raise_unknown(name: str) -> tuple[Method, str]:
    raise Unimplemented(f"Method {name} is not a method of this server; it has versions {', '.join(VERSIONS)} of tpu")


_NAMED = {
    method.full_name(version): (method, SHARED if "." in method.rpc else version)
    for version in VERSIONS
    for method in METHODS
}
