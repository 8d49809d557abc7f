"""Who may call over HTTP: whoever the control plane knows by a token, or, if it was started so, anybody here."""

from __future__ import annotations

import ipaddress
import os
import secrets

from starlette.types import ASGIApp, Receive, Scope, Send

from backend.files import write_text
from tpuctl.api.errors import ApiError, PermissionDenied
from tpuctl.api.home import Home
from tpuctl.control.access import ANONYMOUS, Access
from tpuctl.server.replies import error_reply

PUBLIC = frozenset({"/$discovery/rest", "/token"})
"""What anyone may ask for: the API's description, which clients fetch first, and an access token for another one."""
GOOGLE = ".googleapis.com"


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
    """Lets a request through with who calls in its state; else answers 401 as Cloud TPU does."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PUBLIC:
            peer = scope.get("client") or ("",)
            try:
                caller = self._access.caller(_header(scope, b"authorization"), str(peer[0]))
                if caller is ANONYMOUS:
                    _no_web_page(scope)
            except ApiError as error:
                await error_reply(error)(scope, receive, send)
                return
            scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)


def _no_web_page(scope: Scope) -> None:
    """Raises PermissionDenied for what a browser sends for a page of somebody else: it can reach this machine, too."""
    host = (_header(scope, b"host") or "").rsplit(":", 1)[0].strip("[]")
    if _header(scope, b"origin") is None and (host == "localhost" or host.endswith(GOOGLE) or _is_loopback(host)):
        return
    raise PermissionDenied("web pages may not call without a token; give one: Authorization: Bearer TOKEN")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _header(scope: Scope, wanted: bytes) -> str | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for name, value in headers if name == wanted), None)
