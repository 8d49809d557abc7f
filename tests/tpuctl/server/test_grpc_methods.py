"""The table of methods against Google's own description of its services and messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.cloud.tpu_v2")

from pydantic.alias_generators import to_camel

from tpuctl.api.messages import fields
from tpuctl.api.model import Model
from tpuctl.api.operations import Operation
from tpuctl.server.grpc_methods import VERSIONS, rpc
from tpuctl.server.methods import METHODS, Method, in_version

OVER_HTTP_ONLY = {"GetMaintenanceInfo"}
NAMES = {"name", "parent"}
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_the_methods_that_google_says_it_has(version: str) -> None:
    found = json.loads((resources.files(f"google.cloud.tpu_{version}") / "gapic_metadata.json").read_text())
    ours = {one.rpc for one in METHODS if version in one.versions and "." not in one.rpc} - OVER_HTTP_ONLY
    assert ours == set(found["services"]["Tpu"]["clients"]["grpc"]["rpcs"])


def own(version: str) -> Iterator[tuple[Method, Any]]:
    for method in METHODS:
        if version in method.versions and method.rpc not in OVER_HTTP_ONLY and "." not in method.rpc:
            yield method, rpc(f"/google.cloud.tpu.{version}.Tpu/{method.rpc}")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_a_request_is_known(version: str) -> None:
    for method, found in own(version):
        theirs = {one.json_name for one in found.request.DESCRIPTOR.fields}
        known = set(method.parameters(version))
        if method.body:
            known.add(to_camel(method.body))
        elif (message := method.message(version)) is not None:
            known |= set(fields(message, version))
        assert theirs - NAMES == known, method.id


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_a_resource_is_known(version: str) -> None:
    for method, found in own(version):
        if method.response is Operation:
            continue
        assert list(unknown(found.reply.DESCRIPTOR, in_version(method.response, version), version)) == [], method.id


def unknown(theirs: Any, ours: type[Model], version: str) -> Iterator[str]:
    known = fields(ours, version)
    for one in theirs.fields:
        if one.json_name not in known:
            yield f"{theirs.full_name}.{one.json_name}"
        elif (kind := known[one.json_name].kind) is not None and one.message_type is not None:
            yield from unknown(one.message_type, in_version(kind, version), version)
