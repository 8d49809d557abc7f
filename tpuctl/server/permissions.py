"""What is a caller asked to hold for a method of the Cloud TPU API? From the table of methods."""

from __future__ import annotations

from tpuctl.api.names import location_name
from tpuctl.control.access import Principal, check
from tpuctl.server.handlers import Call
from tpuctl.server.methods import Method


def permission_of(method: Method) -> str:
    """As Google's IAM names it: ``tpu.nodes.create``, ``tpu.locations.list``."""
    return f"tpu.{method.id}" if "." in method.id else f"tpu.locations.{method.id}"


def permit(caller: Principal, method: Method, call: Call) -> None:
    """Raises PermissionDenied unless ``caller`` may do that there."""
    resource = location_name(call.project, call.zone) if call.zone != "-" else f"projects/{call.project}"
    if call.id:
        collection = method.path.split("/")[2]
        resource = f"{location_name(call.project, call.zone)}/{collection}/{call.id}"
    check(caller, call.project, permission_of(method), resource)
