"""The keys and certificates of a test cluster: its authority, its servers and its administrators.

Deliberately not `liqod.identity`, which is under test here. Keys are P-256, as small and as quick
to make as Kubernetes accepts.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)
# A clock that runs behind must not make a new certificate invalid.
BACKDATED = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM, and where they were written to."""

    certificate: Path
    key: Path


class Authority:
    """A cluster's certificate authority, whose files live in `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name}-ca")])
        builder = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
        self.pair = self._write("ca", builder, self._key)

    def server(self, file: str, name: str, addresses: Sequence[str]) -> Pair:
        """A server's certificate for `addresses`, each an IP address or a DNS name."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general_name(address) for address in addresses]
        builder = self._builder(_subject(name, ()), key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return self._write(file, _for_use(builder, ExtendedKeyUsageOID.SERVER_AUTH), key)

    def client(self, file: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client's certificate: the user is its common name, the groups its organizations."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_subject(user, groups), key.public_key())
        return self._write(file, _for_use(builder, ExtendedKeyUsageOID.CLIENT_AUTH), key)

    def resign(self, certificate: bytes, ends: datetime.datetime) -> bytes:
        """A client certificate (PEM) once more, for the same subject and key, with another end."""
        before = x509.load_pem_x509_certificate(certificate)
        public = before.public_key()
        builder = x509.CertificateBuilder().subject_name(before.subject).issuer_name(self._name)
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(ends - LIFETIME).not_valid_after(ends)
        signed = _for_use(builder, ExtendedKeyUsageOID.CLIENT_AUTH).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - BACKDATED).not_valid_after(now + LIFETIME)

    def _write(
        self, file: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> Pair:
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Writes a private key, a new one unless given, readable by its owner only."""
    made = key or ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        made.private_bytes(
            serialization.Encoding.PEM,
            # The controller manager signs with SEC 1 keys as well as with PKCS #8.
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return path


def kubeconfig(name: str, server: str, authority: Path, client: Pair) -> str:
    """A kubeconfig that holds its certificates, so that it works wherever it is copied to."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    return f"""apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {inline(authority)}
users:
- name: {name}
  user:
    client-certificate-data: {inline(client.certificate)}
    client-key-data: {inline(client.key)}
contexts:
- name: {name}
  context: {{cluster: {name}, user: {name}}}
"""


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _for_use(
    builder: x509.CertificateBuilder, use: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    return builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
