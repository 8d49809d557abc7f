"""One HTTP connection to the control plane: JSON in and out, failures as ApiError."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tpuctl.api.errors import Unavailable, from_body

PEM_END = "-----END CERTIFICATE-----"
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class Transport:
    """Calls ``url`` with a bearer token; over TLS, only whoever has that ``certificate``.

    Raises ApiError for every failure, unreachable hosts included.
    """

    def __init__(self, url: str, token: str, certificate: Path | None = None) -> None:
        self.url = url
        headers = {"authorization": f"Bearer {token}"}
        verify = pinned(certificate) if certificate else True
        self._http = httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT, trust_env=False, verify=verify)

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, *, body: Any = None, **query: str | int | None) -> Any:
        """The JSON value the control plane answers with."""
        params = {name: value for name, value in query.items() if value is not None}
        try:
            response = self._http.request(method, path, params=params, json=body)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise _failure(response)
        return _decode(response)

    def stream(self, path: str, **query: str | int) -> Iterator[Any]:
        """The JSON values of a newline-delimited stream; blank keep-alive lines are left out."""
        try:
            with self._http.stream("GET", path, params=query) as response:
                if response.is_error:
                    response.read()
                    raise _failure(response)
                yield from (json.loads(line) for line in response.iter_lines() if line)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> Unavailable:
        reason = str(error) or type(error).__name__
        return Unavailable(f"the control plane at {self.url} does not answer ({reason}); start it with `tpuctl up`")


def pinned(certificate: Path) -> ssl.SSLContext:
    """Trusts this certificate alone, under whatever name it is met. Raises Unavailable if it cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        first = certificate.read_text().partition(PEM_END)
        context.load_verify_locations(cadata=first[0] + first[1])
    except (OSError, ValueError) as error:
        raise Unavailable(f"{certificate}, which the control plane is served with, cannot be read: {error}") from error
    return context


def _failure(response: httpx.Response) -> Exception:
    try:
        body = response.json()
    except ValueError:
        body = response.text
    return from_body(response.status_code, body)


def _decode(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise Unavailable(f"{response.url} is not a tpuctl control plane: it did not answer in JSON") from error
