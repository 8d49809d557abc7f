"""Who may call: whoever holds the home's bearer token."""

from __future__ import annotations

import hmac
import os
import secrets

from starlette.types import ASGIApp, Receive, Scope, Send

from backend.files import write_text
from tpuctl.api.errors import Unauthenticated
from tpuctl.api.home import Home
from tpuctl.server.replies import error_reply

PUBLIC = frozenset({"/$discovery/rest"})
"""What anyone may read: clients fetch the API's description before they have a token."""


def load_token(home: Home) -> str:
    """The home's token, made (mode 0600) if there is none. Raises OSError."""
    try:
        token = home.token.read_text().strip()
    except FileNotFoundError:
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_text(home.token, token + "\n")
    os.chmod(home.token, 0o600)
    return token


class BearerAuth:
    """Lets a request through if it carries the token; else answers 401 as Cloud TPU does."""

    def __init__(self, app: ASGIApp, token: str, token_file: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._token_file = token_file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        public = scope["type"] == "lifespan" or scope["path"] in PUBLIC
        if public or hmac.compare_digest(self._expected, _given(scope)):
            await self._app(scope, receive, send)
            return
        what = "the bearer token is wrong" if _given(scope) else "a bearer token is missing"
        error = Unauthenticated(f"{what}; the control plane's token is in {self._token_file}")
        await error_reply(error)(scope, receive, send)


def _given(scope: Scope) -> bytes:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for name, value in headers if name == b"authorization"), b"")
