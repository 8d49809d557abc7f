"""The authority that vouches for the proxy: its key never leaves the home, and it can vouch for Google's APIs alone."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from backend.files import write_text
from tpuctl.api.errors import FailedPrecondition

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, Name

DOMAIN = "googleapis.com"
DAYS = 365
NAME = "tpuctl proxy of this machine"


class Authority:
    """Kept in ``directory``: key.pem (mode 0600) and ca.pem, made if they are not there. Raises ApiError, OSError."""

    def __init__(self, directory: Path) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as error:
            raise FailedPrecondition("the proxy needs cryptography: pip install 'tpuctl[proxy]'") from error
        directory.mkdir(mode=0o700, exist_ok=True)
        self.certificate_file, key_file = directory / "ca.pem", directory / "key.pem"
        if not (key_file.exists() and _is_valid(self.certificate_file)):
            key, certificate = _make()
            write_text(key_file, _pem(key))
            key_file.chmod(0o600)
            write_text(self.certificate_file, _certificate_pem(certificate))
        loaded = load_pem_private_key(key_file.read_bytes(), None)
        self._key: EllipticCurvePrivateKey = loaded  # type: ignore[assignment]
        self._certificate: Certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        self._contexts: dict[str, ssl.SSLContext] = {}

    def context(self, host: str, protocols: list[str]) -> ssl.SSLContext:
        """For serving ``host``, one under googleapis.com, over TLS."""
        if host not in self._contexts:
            if len(self._contexts) > 100:
                self._contexts.clear()
            self._contexts[host] = self._new(host, protocols)
        return self._contexts[host]

    def _new(self, host: str, protocols: list[str]) -> ssl.SSLContext:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(host[:64], self._certificate.subject, key)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(protocols)
        with TemporaryDirectory() as folder:  # for its owner only; ssl takes keys from files alone
            chain = Path(folder) / "chain.pem"
            chain.touch(mode=0o600)
            chain.write_text(_pem(key) + _certificate_pem(made))
            context.load_cert_chain(chain)
        return context


def _make() -> tuple[EllipticCurvePrivateKey, Certificate]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    signs = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    only = x509.NameConstraints(permitted_subtrees=[x509.DNSName(DOMAIN)], excluded_subtrees=None)
    made = (
        _builder(NAME, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(only, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, made


def _builder(subject: str, issuer: Name, key: EllipticCurvePrivateKey) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _is_valid(path: Path) -> bool:
    """Whether it is there and holds for some days yet."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return False
    return certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=7)


def _pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _certificate_pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
