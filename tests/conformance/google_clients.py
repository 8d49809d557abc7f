"""google-cloud-tpu's clients of all versions and transports, called alike: with a method's name and a request."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import grpc
from google.api_core.future.polling import DEFAULT_POLLING
from google.api_core.retry import AsyncRetry
from google.oauth2.credentials import Credentials

CLIENTS = [
    ("v2", "grpc"),
    ("v2", "grpc_asyncio"),
    ("v2", "rest"),
    ("v2alpha1", "grpc"),
    ("v2alpha1", "grpc_asyncio"),
    ("v1", "grpc"),
    ("v1", "grpc_asyncio"),
]
"""google-cloud-tpu has REST of v2 alone."""
SECONDS = 60.0
SOON = 0.05
OFTEN = DEFAULT_POLLING.with_delay(initial=SOON, maximum=SOON)
"""How often an operation is polled, in seconds."""


class GoogleClient:
    """``called`` are the methods that have been, by their names in Python."""

    def __init__(self, version: str, client: Any) -> None:
        self.version = version
        self.types = importlib.import_module(f"google.cloud.tpu_{version}")
        self.called: set[str] = set()
        self.client = client

    def call(self, method: str, **request: Any) -> Any:
        """What the method answers; of a list all that is on its pages."""
        self.called.add(method)
        answered = getattr(self.client, method)(request=request)
        return list(answered) if hasattr(answered, "pages") else answered

    def finish(self, method: str, **request: Any) -> Any:
        """What its operation results in."""
        return self.call(method, **request).result(timeout=SECONDS, polling=OFTEN)

    @property
    def methods(self) -> set[str]:
        """All that the version's service has."""
        found = resources.files(f"google.cloud.tpu_{self.version}") / "gapic_metadata.json"
        rpcs = json.loads(found.read_text())["services"]["Tpu"]["clients"]["grpc"]["rpcs"].values()
        return {method for rpc in rpcs for method in rpc["methods"]}


class AsyncGoogleClient(GoogleClient):
    def __init__(self, version: str, client: Any, runner: asyncio.Runner) -> None:
        super().__init__(version, client)
        self._runner = runner

    def call(self, method: str, **request: Any) -> Any:
        return self._runner.run(self._called(method, request))

    def finish(self, method: str, **request: Any) -> Any:
        return self._runner.run(self._finished(method, request))

    async def _finished(self, method: str, request: dict[str, Any]) -> Any:
        operation = await self._called(method, request)
        operation._retry = AsyncRetry(predicate=operation._retry._predicate, initial=SOON, maximum=SOON)
        return await operation.result(timeout=SECONDS)

    async def _called(self, method: str, request: dict[str, Any]) -> Any:
        self.called.add(method)
        answered = await getattr(self.client, method)(request=request)
        return [one async for one in answered] if isinstance(answered, AsyncIterable) else answered


class WithToken(grpc.UnaryUnaryClientInterceptor):
    """On a channel without TLS nobody but the caller adds the token."""

    def __init__(self, token: str) -> None:
        self._added = [("authorization", f"Bearer {token}")]

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details._replace(metadata=[*(details.metadata or ()), *self._added]), request)


class AsyncWithToken(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, token: str) -> None:
        self._added = [("authorization", f"Bearer {token}")]

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(details._replace(metadata=[*(details.metadata or ()), *self._added]), request)


@contextmanager
def google_client(version: str, transport: str, server: dict[str, Any], token: str) -> Iterator[GoogleClient]:
    """A client of the control plane that wrote ``server``."""
    package = importlib.import_module(f"google.cloud.tpu_{version}")
    transports = importlib.import_module(f"google.cloud.tpu_{version}.services.tpu.transports")
    address = server["grpcUrl"].partition("://")[2]
    if transport == "rest":
        options = {"api_endpoint": server["url"]}
        made = package.TpuClient(transport="rest", credentials=Credentials(token), client_options=options)
        with made as client:
            yield GoogleClient(version, client)
    elif transport == "grpc":
        with grpc.insecure_channel(address) as channel:
            known = transports.TpuGrpcTransport(channel=grpc.intercept_channel(channel, WithToken(token)))
            yield GoogleClient(version, package.TpuClient(transport=known))
    else:
        with asyncio.Runner() as runner:
            runner.get_loop()
            client = runner.run(_async_client(package, transports, address, token))
            yield AsyncGoogleClient(version, client, runner)
            runner.run(client.transport.close())


async def _async_client(package: Any, transports: Any, address: str, token: str) -> Any:
    channel = grpc.aio.insecure_channel(address, interceptors=[AsyncWithToken(token)])
    return package.TpuAsyncClient(transport=transports.TpuGrpcAsyncIOTransport(channel=channel))
