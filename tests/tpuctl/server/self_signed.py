"""A certificate for 127.0.0.1 that is its own root."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tpuctl.server.reach import Tls


def self_signed(folder: Path) -> Tls:
    """Kept in ``folder``: cert.pem and key.pem."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now, alternative = datetime.now(UTC), x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    made = Tls(folder / "cert.pem", folder / "key.pem")
    made.certificate.write_bytes(certificate.public_bytes(pem))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    made.key.write_bytes(key.private_bytes(pem, *private))
    return made
