"""From where can the control plane be called, and how? Beyond this machine only over TLS, by token."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.home import DEFAULT_HOST


@dataclass(frozen=True)
class Tls:
    """PEM files: the certificate, with those between it and its root, and its key."""

    certificate: Path
    key: Path


def tls_of(certificate: Path | None, key: Path | None) -> Tls | None:
    """Raises InvalidArgument if only one is given, or they are not a certificate and its key."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidArgument("TLS needs both a certificate and its key: --tls-cert FILE --tls-key FILE")
    tls = Tls(certificate.absolute(), key.absolute())
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgument(f"cannot use {certificate} with {key} for TLS: {reason}") from error
    return tls


def check_reach(host: str, tls: Tls | None, anonymous: bool) -> None:
    """Raises InvalidArgument where others could listen in, or call without a token."""
    if all(address.is_loopback for address in _addresses(host)):
        return
    if anonymous:
        raise InvalidArgument(f"{host} is not a loopback address: --anonymous is for this machine only")
    if tls is None:
        advice = "to serve others, give a certificate: --tls-cert FILE --tls-key FILE"
        raise InvalidArgument(f"{host} is not a loopback address: {advice}")


def url_of(host: str, listener: socket.socket, tls: Tls | None) -> str:
    """The control plane's address for this machine."""
    unspecified = any(address.is_unspecified for address in _addresses(host))
    named = DEFAULT_HOST if unspecified else f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{named}:{listener.getsockname()[1]}"


def own_context(tls: Tls | None) -> ssl.SSLContext | None:
    """For calling ourselves over loopback: whoever has our port there is us."""
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        return [ipaddress.ip_address(str(found[4][0])) for found in socket.getaddrinfo(host, None)]
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot serve on {host}: {error}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not")
