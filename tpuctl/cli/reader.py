"""Plain reads of the control plane over the standard library: for commands that must answer at once.

The full client is httpx and pydantic, which take longer to import than these reads take in all.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tpuctl.api.home import Home
from tpuctl.cli import settings


class NotRunning(Exception):
    """No control plane answers for this home, or what answers is none."""


def read(path: str) -> Any:
    """The JSON answer to a GET, from a control plane that is started first if need be. Raises ApiError."""
    try:
        return get(path)
    except NotRunning:
        from tpuctl.cli.plane import connect

        connect().close()
        return get(path)


def get(path: str, timeout_seconds: float = 10.0) -> Any:
    """The JSON answer to a GET. Raises ApiError for a refusal, NotRunning if nobody answers."""
    settings.check()
    home = Home.find()
    try:
        about = json.loads(home.server.read_text())
        address = urlsplit(str(about["url"]))
        token = os.environ.get("TPUCTL_TOKEN") or home.token.read_text().strip()
        connection = _connection(address, about.get("certificate"), timeout_seconds)
        try:
            connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
            response = connection.getresponse()
            body = json.loads(response.read())
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, TypeError, HTTPException) as error:
        raise NotRunning(str(error)) from error
    if response.status >= 400:
        from tpuctl.api.errors import from_body

        raise from_body(response.status, body)
    return body


def _connection(address: SplitResult, certificate: str | None, timeout_seconds: float) -> HTTPConnection:
    """Over TLS, with who has that certificate, if one is named."""
    if certificate is None:
        return HTTPConnection(address.hostname or "", address.port, timeout=timeout_seconds)
    from http.client import HTTPSConnection
    from pathlib import Path

    from tpuctl.client.transport import pinned

    context = pinned(Path(certificate))
    return HTTPSConnection(address.hostname or "", address.port, timeout=timeout_seconds, context=context)
