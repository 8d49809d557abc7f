"""Errors as gRPC carries them: code and message, and a google.rpc.Status with the details in the trailers."""

from __future__ import annotations

import logging
import string
from collections.abc import Sequence
from urllib.parse import quote

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.json_format import ParseDict, ParseError
from google.rpc import error_details_pb2, status_pb2

from tpuctl.api.errors import ApiError, Detail

TRAILER = "grpc-status-details-bin"
MAX_MESSAGE_BYTES = 2000
"""As sent. Clients take about 8 KiB of trailers in all; an error with more would reach them as another one."""
MAX_STATUS_BYTES = 3000
DETAILS = error_details_pb2
"""Imported so that they are known by their names."""
CODES = {code.value[0]: code for code in grpc.StatusCode}
log = logging.getLogger("tpuctl.server")


def abort(context: grpc.ServicerContext, error: ApiError) -> bytes:
    """End the call with ``error``; does not return."""
    message = shortened(error.message)
    status = status_pb2.Status(code=error.code, message=message, details=_packed(error.details))
    if status.ByteSize() > MAX_STATUS_BYTES:
        status.ClearField("details")
    context.set_trailing_metadata(((TRAILER, status.SerializeToString()),))
    context.abort(CODES.get(error.code, grpc.StatusCode.UNKNOWN), message)
    return b""


def shortened(text: str) -> str:
    """What of it is not longer than allowed, percent-encoded as it is sent."""
    kept = text
    while (sent := len(quote(kept, safe=string.printable))) > MAX_MESSAGE_BYTES:
        kept = kept[: len(kept) * MAX_MESSAGE_BYTES // sent]
    return kept if kept == text else f"{kept}…"


def _packed(details: Sequence[Detail]) -> list[Any]:
    packed = []
    for detail in details:
        try:
            packed.append(ParseDict(detail, Any()))
        except (ParseError, TypeError) as error:
            log.warning("an error's detail cannot be sent", extra={"detail": detail, "reason": str(error)})
    return packed
