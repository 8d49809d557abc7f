"""The Cloud TPU API over gRPC: every method of every version through one handler, made from the table of methods."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from tpuctl.api.errors import FailedPrecondition
from tpuctl.control.plane import ControlPlane
from tpuctl.server.answering import answer
from tpuctl.server.bodies import MAX_BODY_BYTES
from tpuctl.server.grpc_calls import call_of, reply_of
from tpuctl.server.grpc_errors import abort
from tpuctl.server.grpc_methods import rpc
from tpuctl.server.grpc_port import Admit
from tpuctl.server.replies import api_error

THREADS = 64
OPTIONS = (("grpc.max_receive_message_length", MAX_BODY_BYTES),)
log = logging.getLogger("tpuctl.server")


def start(
    plane: ControlPlane, admit: Admit, address: str, credentials: grpc.ServerCredentials | None = None
) -> grpc.Server:
    """A server on ``address``, over TLS with ``credentials``. Raises FailedPrecondition if it cannot be had."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grpc")
    server = grpc.server(pool, handlers=[Front(plane, admit)], options=OPTIONS)
    try:
        if credentials is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise FailedPrecondition(f"cannot serve gRPC on {address}: {error}") from error
    server.start()
    return server


class Front(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers calls of any name: requests and replies are bytes until it is known of what type they are."""

    def __init__(self, plane: ControlPlane, admit: Admit) -> None:
        self._plane = plane
        self._admit = admit

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._answer(details.method, data, context))

    def _answer(self, path: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return self._reply(path, data, context)
        except Exception as error:
            told = api_error(error)
            if told.code == 13:
                log.error("call failed", exc_info=error, extra={"method": path})
        return abort(context, told)

    def _reply(self, path: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        authorization = next((value for key, value in context.invocation_metadata() if key == "authorization"), None)
        caller = self._admit(authorization, context.peer())
        found = rpc(path)
        call = replace(call_of(found, data), is_awaited=context.is_active)
        if not context.is_active():
            return b""
        return reply_of(found, answer(self._plane, found.method, call, caller))
