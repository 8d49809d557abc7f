"""Who calls, and may they? Principals by their tokens, and the role that each permission needs."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tpuctl.api.access import EVERY_PROJECT, Role, Token
from tpuctl.api.errors import InvalidArgument, NotFound, PermissionDenied, Unauthenticated
from tpuctl.api.names import check_project
from tpuctl.store import Store
from tpuctl.store.rows import TokenRow

PREFIX = "tpuctl_"
LOOKS = frozenset({"get", "list", "wait", "getGuestAttributes", "getMaintenanceInfo", "logs", "watch"})
"""The verbs that change nothing: a viewer may."""
SERVICES = {"compute": "compute.googleapis.com", "resourcemanager": "cloudresourcemanager.googleapis.com"}
GOVERNS = re.compile(r"tpuctl\.(faults|tokens|proxy|limits)\.\w+")
"""What only an admin may, looking included."""
_PRINCIPAL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9@._-]{0,126}[A-Za-z0-9])?")
log = logging.getLogger("tpuctl.access")


@dataclass(frozen=True)
class Principal:
    """Somebody who calls, and the role they have on each project (``*``: on all)."""

    name: str
    roles: Mapping[str, Role]

    def may(self, project: str, needed: Role) -> bool:
        held = (self.roles.get(EVERY_PROJECT), self.roles.get(project))
        return any(role is not None and role.includes(needed) for role in held)


OWNER = Principal("owner", {EVERY_PROJECT: Role.ADMIN})
ANONYMOUS = Principal("anonymous", {EVERY_PROJECT: Role.USER})


def role_for(permission: str) -> Role:
    """The role that a permission, such as ``tpu.nodes.create``, needs."""
    if GOVERNS.fullmatch(permission):
        return Role.ADMIN
    return Role.VIEWER if permission.rpartition(".")[2] in LOOKS else Role.USER


def check(principal: Principal, project: str, permission: str, resource: str) -> None:
    """Raises PermissionDenied, which says nothing of whether there is such a project, unless the principal may.

    ``resource`` is its name below the service: projects/PROJECT/locations/ZONE.
    """
    if principal.may(project, role_for(permission)):
        return
    service = SERVICES.get(permission.partition(".")[0], "tpu.googleapis.com")
    full = f"//{service}/{resource}"
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "IAM_PERMISSION_DENIED",
        "domain": service,
        "metadata": {"permission": permission, "resource": resource},
    }
    raise PermissionDenied(f"Permission '{permission}' denied on resource '{full}' (or it may not exist).", [detail])


class Access:
    """Knows callers by their tokens. Safe for use from several threads."""

    def __init__(self, store: Store, token_file: str, anonymous: bool = False) -> None:
        self.anonymous = anonymous
        self._store = store
        self._token_file = token_file
        self._owner = ""
        with store.read() as reader:
            self._known = {row.digest: _principal(row) for row in reader.tokens()}

    def set_owner(self, token: str) -> None:
        """The token of the home: who has it may do everything."""
        self._owner = digest(token)

    def caller(self, authorization: str | None, peer: str = "") -> Principal:
        """Who calls from ``peer`` with such an Authorization header. Raises Unauthenticated."""
        if authorization is None and self.anonymous:
            return ANONYMOUS
        scheme, _, token = (authorization or "").partition(" ")
        given = digest(token.strip())
        if scheme.lower() == "bearer":
            if hmac.compare_digest(given, self._owner):
                return OWNER
            known = self._known.get(given)  # of digests: how long it takes says nothing of a token
            if known is not None:
                return known
        what = "the bearer token is wrong" if authorization else "a bearer token is missing"
        log.warning("refused", extra={"peer": peer, "reason": what})
        raise Unauthenticated(f"{what}; the control plane's token is in {self._token_file}")

    def create(self, wanted: Token) -> Token:
        """A new token, which is told here and never again: only its digest is kept. Raises InvalidArgument."""
        if not _PRINCIPAL.fullmatch(wanted.principal):
            rule = "use 1 to 128 of A-Z a-z 0-9 @ . _ -, with a letter or digit first and last"
            raise InvalidArgument(f"{wanted.principal!r} is not the name of a principal: {rule}")
        for project in wanted.roles:
            if project != EVERY_PROJECT:
                check_project(project)
        token = PREFIX + secrets.token_urlsafe(32)
        roles = {project: str(role) for project, role in wanted.roles.items()}
        with self._store.change() as change:
            row = TokenRow(secrets.token_hex(4), wanted.principal, digest(token), roles, change.now)
            change.insert(row)
            change.event(f"tokens/{row.id}", "created", row.principal)
        self._known = self._known | {row.digest: _principal(row)}
        return _view(row).model_copy(update={"token": token})

    def list(self) -> list[Token]:
        """All but the home's own, oldest first."""
        with self._store.read() as reader:
            return [_view(row) for row in reader.tokens()]

    def revoke(self, wanted: str) -> None:
        """From now on nobody is known by it. Raises NotFound."""
        with self._store.change() as change:
            row = next((row for row in change.tokens() if row.id == wanted), None)
            if row is None:
                raise NotFound(f"there is no token {wanted!r}; `tpuctl auth list` shows those there are")
            change.delete(row)
            change.event(f"tokens/{row.id}", "revoked", row.principal)
        self._known = {key: one for key, one in self._known.items() if key != row.digest}


def digest(token: str) -> str:
    """SHA-256: a token has 256 random bits, so that nothing slower is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _principal(row: TokenRow) -> Principal:
    return Principal(row.principal, {project: Role(role) for project, role in row.roles.items()})


def _view(row: TokenRow) -> Token:
    roles = {project: Role(role) for project, role in row.roles.items()}
    return Token(
        id=row.id, principal=row.principal, roles=roles, create_time=datetime.fromtimestamp(row.create_time, UTC)
    )
