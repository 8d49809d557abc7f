"""Resources as each version of the Cloud TPU API reads and shows them."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from tpuctl.api.invalid_values import invalid_values
from tpuctl.api.legacy import LegacyNode, from_legacy, to_legacy
from tpuctl.api.messages import check, prune, without_nulls
from tpuctl.api.model import Model
from tpuctl.api.nodes import Node, NodeJson, NodesAsJson
from tpuctl.api.operations import Operation, OperationList
from tpuctl.api.queued import QueuedResource
from tpuctl.server.methods import LEGACY, in_version

PREFIX = "type.googleapis.com/"
EMPTY = {"@type": f"{PREFIX}google.protobuf.Empty"}
API_VERSIONS = {"v2": "V2", "v2alpha1": "V2_ALPHA1", "v1": "V1", "v1alpha1": "V1_ALPHA1"}
"""What a node says of the version that made it."""
KINDS: dict[str, type[Model]] = {"Node": Node, "QueuedResource": QueuedResource}
EMPTIED = {("Node", "v2"), ("Node", "v2alpha1"), ("QueuedResource", "v2")}
"""What ends with nothing where others end with what was deleted."""
AnyModel = TypeVar("AnyModel", bound=Model)


def read(value: Any, kind: type[Model], version: str, at: str) -> Model:
    """A body of ``version`` as a message; ``at`` is where it is in the request. Raises InvalidArgument."""
    value = without_nulls(value)
    check(value, in_version(kind, version), version, at)
    try:
        message = in_version(kind, version).model_validate(value)
    except ValidationError as error:
        raise invalid_values(error, in_version(kind, version), version, at) from error
    return Node.model_validate(from_legacy(message).to_json()) if isinstance(message, LegacyNode) else message


def shown(model: Model, version: str) -> dict[str, Any]:
    """A message in the JSON of ``version``."""
    match model:
        case Node() if version in LEGACY:
            model = to_legacy(model)
        case NodesAsJson():
            token = {"nextPageToken": model.next_page_token} if model.next_page_token else {}
            return {"nodes": [_node(node, version) for node in model.nodes]} | token
        case Operation():
            return _operation(model, version)
        case OperationList():
            listed = {"operations": [_operation(one, version) for one in model.operations]}
            return model.model_copy(update={"operations": []}).to_json() | listed
    return prune(model.to_json(), type(model), version)


def _node(value: NodeJson, version: str) -> dict[str, Any]:
    if version not in value.shown:
        model = Node.model_validate(value) if version in LEGACY else None
        value.shown[version] = prune(dict(value), Node, version) if model is None else shown(model, version)
    return value.shown[version]


def _operation(operation: Operation, version: str) -> dict[str, Any]:
    """The types in it are those of the version that is asked: clients know no others."""
    value = operation.to_json()
    value["metadata"] |= {"@type": f"{PREFIX}google.cloud.tpu.{version}.OperationMetadata", "apiVersion": version}
    if operation.response is not None:
        value["response"] = _response(operation.response, operation.metadata.verb, version)
    return value


def _response(response: dict[str, Any], verb: str, version: str) -> dict[str, Any]:
    name = str(response.get("@type", "")).rpartition(".")[2]
    kind = KINDS.get(name)
    if kind is None:
        return response
    if verb == "delete" and (name, version) in EMPTIED:
        return EMPTY
    inner = {key: value for key, value in response.items() if key != "@type"}
    return {"@type": f"{PREFIX}google.cloud.tpu.{version}.{name}", **shown(kind.model_validate(inner), version)}
