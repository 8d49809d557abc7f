"""A request message as the call that handlers know, and what they answer as a reply message."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.json_format import Error, MessageToDict, ParseDict
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from pydantic.alias_generators import to_camel

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.model import Model
from tpuctl.api.operations import Operation, OperationList
from tpuctl.server.grpc_methods import VERSIONS, Rpc, load
from tpuctl.server.handlers import Call
from tpuctl.server.methods import Method
from tpuctl.server.versions import read, shown

DETAILS = error_details_pb2
"""Imported so that errors inside operations can hold them."""
Json = dict[str, Any]


def call_of(rpc: Rpc, data: bytes) -> Call:
    """The call that a message asks for. Raises InvalidArgument, or pydantic's ValidationError."""
    value = _json(rpc, data)
    at = _name_field(rpc)
    place = _place(rpc.method, at, _take(value, at.split(".")))
    query = {name: _text(value.pop(name)) for name in rpc.method.parameters(rpc.version) if name in value}
    body = None
    if rpc.method.request is not None:
        asked = value.get(to_camel(rpc.method.body), {}) if rpc.method.body else value
        body = read(asked, rpc.method.request, rpc.version, rpc.method.body)
    return Call(rpc.version, place["project"], place.get("zone", "-"), place.get("id", ""), query, body)


def reply_of(rpc: Rpc, model: Model) -> bytes:
    """The reply message that shows ``model``. An operation is shown in the version that it began in."""
    match model:
        case OperationList():
            value = shown(model.model_copy(update={"operations": []}), rpc.version)
            value["operations"] = [_operation(one) for one in model.operations]
        case Operation():
            value = _operation(model)
        case _:
            value = shown(model, rpc.version)
    reply: bytes = ParseDict(value, rpc.reply(), ignore_unknown_fields=True).SerializeToString()
    return reply


def _operation(operation: Operation) -> Json:
    began_in = operation.metadata.api_version
    version = began_in if began_in in VERSIONS else "v1"
    load(version)
    return shown(operation, version)


def _json(rpc: Rpc, data: bytes) -> Json:
    """The message as JSON, but the mask as it is: paths that are no JSON names are judged like all others."""
    try:
        message = rpc.request.FromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"the request is not a {rpc.request.DESCRIPTOR.full_name}: {error}") from error
    paths = []
    if "update_mask" in rpc.request.DESCRIPTOR.fields_by_name:
        paths = list(message.update_mask.paths)
        message.ClearField("update_mask")
    try:
        value: Json = MessageToDict(message)
    except (Error, ValueError) as error:
        raise InvalidArgument(f"the request holds a value that is not valid: {error}") from error
    return value | ({"updateMask": ",".join(paths)} if paths else {})


def _name_field(rpc: Rpc) -> str:
    """Where in the request it says of which resource it is: ``node.name`` where there is one only there."""
    there = rpc.request.DESCRIPTOR.fields_by_name
    return next((name for name in ("parent", "name") if name in there), f"{rpc.method.body}.name")


def _take(value: Json, path: list[str]) -> str:
    for inner in path[:-1]:
        value = value.get(inner, {})
    found: str = value.pop(path[-1], "")
    return found


def _place(method: Method, at: str, name: str) -> dict[str, str]:
    """The parts of a resource's name, or of that of the one above it where a method is for all in it."""
    parts = f"projects/{{project}}/locations{method.path.partition(':')[0]}".split("/")
    wanted = parts if "{" in parts[-1] else parts[:-1]
    pattern = "/".join(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", part) for part in wanted)
    found = re.fullmatch(pattern, name)
    if found is None:
        form = "/".join("*" if "{" in part else part for part in wanted)
        raise InvalidArgument.of_fields({at: f"{name!r} is not of the form {form}"})
    return found.groupdict()


def _text(value: Any) -> str:
    """As it would be in a query."""
    return str(value).lower() if isinstance(value, bool) else str(value)
