"""Makes authorities and server certificates of our own, and reads certificates of others.

liqod's servers (webhook, kubelet API, embedded clusters) get certificates from small authorities
made by this module; peers' client certificates are signed by the API server of their cluster,
except in an embedded cluster, whose authority signs them with this module.
"""

import datetime
import hashlib
import ipaddress
from collections.abc import Iterable

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from liqod.errors import ProtocolError
from liqod.identity.certificaterequests import algorithm, subject
from liqod.identity.keys import (
    UNREADABLE,
    PrivateKey,
    PublicKey,
    encode_public,
    generate_tls,
    load_private,
)

YEAR = 365 * 24 * 3600.0
SKEW = 60.0
"""Seconds that a certificate's life begins before it is signed, for clocks that are behind."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateInfo(msgspec.Struct, frozen=True):
    """The contents of a certificate.

    Attributes:
        common_name: the user of a client certificate; empty if it has none.
        organizations: its groups.
        not_before, not_after: epoch seconds between which it is valid.
        public_key: PEM PKIX.
    """

    common_name: str
    organizations: tuple[str, ...]
    not_before: float
    not_after: float
    public_key: bytes


def make_ca(common_name: str, *, now: float | None = None, life: float = 10 * YEAR) -> Pair:
    """A self-signed authority with an ECDSA key, valid for ``life`` seconds."""
    key_pem = generate_tls()
    key = load_private(key_pem)
    name = subject(common_name)
    builder = _builder(name, name, key.public_key(), now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return Pair(_pem(builder.sign(key, algorithm(key))), key_pem)


def make_server(
    ca: Pair, hosts: Iterable[str], *, now: float | None = None, life: float = YEAR
) -> Pair:
    """A server certificate for those IP addresses and DNS names, with a key of its own."""
    key_pem = generate_tls()
    hosts = list(hosts)
    name = subject(hosts[0] if hosts else "server")
    public = load_private(key_pem).public_key()
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    builder = _issued(ca, name, public, now, life, ExtendedKeyUsageOID.SERVER_AUTH)
    return Pair(_sign(ca, builder.add_extension(alternatives, critical=False)), key_pem)


def make_client(
    ca: Pair,
    common_name: str,
    organizations: tuple[str, ...] = (),
    *,
    now: float | None = None,
    life: float = YEAR,
) -> Pair:
    """A client certificate with a key of its own: a user and groups of an embedded cluster."""
    key_pem = generate_tls()
    public = load_private(key_pem).public_key()
    name = subject(common_name, organizations)
    builder = _issued(ca, name, public, now, life, ExtendedKeyUsageOID.CLIENT_AUTH)
    return Pair(_sign(ca, builder), key_pem)


def request_server(
    private: bytes, common_name: str, organization: str, hosts: Iterable[str]
) -> bytes:
    """A PEM request for a server certificate for those IP addresses and DNS names.

    Raises:
        ProtocolError: the private key is none.
    """
    key = load_private(private)
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    builder = x509.CertificateSigningRequestBuilder(subject(common_name, (organization,)))
    request = builder.add_extension(alternatives, critical=False).sign(key, algorithm(key))
    return request.public_bytes(serialization.Encoding.PEM)


def serves(pem: bytes, private: bytes, host: str) -> bool:
    """True if the first certificate (PEM) is of that key and for that host; False if unreadable."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        public = certificate.public_key()
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        same = isinstance(public, PublicKey) and public == load_private(private).public_key()
    except (*UNREADABLE, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False
    return same and _general_name(host) in found.value


def sign_server(ca: Pair, csr: bytes, *, seconds: float, now: float | None = None) -> bytes:
    """The server certificate for a request, PEM, with its names, valid for ``seconds``.

    Raises:
        ProtocolError: this is no request with names, or its key did not sign it.
    """
    request, name, public = _requested(csr)
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (*UNREADABLE, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise ProtocolError("the CSR names no address") from error
    builder = _issued(ca, name, public, now, seconds, ExtendedKeyUsageOID.SERVER_AUTH)
    return _sign(ca, builder.add_extension(names, critical=False))


def sign_client(ca: Pair, csr: bytes, *, seconds: float, now: float | None = None) -> bytes:
    """The client certificate for a request, PEM, valid for ``seconds``.

    Like Kubernetes' own signer it copies the subject and nothing else; the approver decides on the
    subject.

    Raises:
        ProtocolError: this is no request, or its key did not sign it.
    """
    _, name, public = _requested(csr)
    return _sign(ca, _issued(ca, name, public, now, seconds, ExtendedKeyUsageOID.CLIENT_AUTH))


def _requested(csr: bytes) -> tuple[x509.CertificateSigningRequest, x509.Name, PublicKey]:
    """A request, its subject and its key."""
    try:
        request = x509.load_pem_x509_csr(csr)
        public, name = request.public_key(), request.subject
        valid = request.is_signature_valid
    except UNREADABLE as error:
        raise ProtocolError("the CSR cannot be parsed") from error
    if not isinstance(public, PublicKey) or not valid:
        raise ProtocolError("the CSR is not signed by a key of its own that we know")
    return request, name, public


def read(pem: bytes) -> CertificateInfo:
    """The contents of the first certificate of a PEM text.

    Raises:
        ProtocolError: it holds no certificate, or one that cannot be read.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        public, name = certificate.public_key(), certificate.subject
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except UNREADABLE as error:
        raise ProtocolError("this is no PEM certificate, or not one that can be read") from error
    if not isinstance(public, PublicKey):
        raise ProtocolError("the certificate's key is neither Ed25519 nor RSA nor ECDSA")
    return CertificateInfo(
        common_name=next(iter(_texts(name, NameOID.COMMON_NAME)), ""),
        organizations=tuple(_texts(name, NameOID.ORGANIZATION_NAME)),
        not_before=begins.timestamp(),
        not_after=ends.timestamp(),
        public_key=encode_public(public),
    )


def key_prints(pem: bytes) -> frozenset[str]:
    """SHA-256 of the public key of every certificate of a PEM text, in hexadecimal.

    Raises:
        ProtocolError: it holds no certificate, or one that cannot be read.
    """
    try:
        keys = [each.public_key() for each in x509.load_pem_x509_certificates(pem)]
        texts = [
            key.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            for key in keys
        ]
    except UNREADABLE as error:
        raise ProtocolError("these are no PEM certificates, or not such as can be read") from error
    return frozenset(hashlib.sha256(text).hexdigest() for text in texts)


def is_issued_by(pem: bytes, authorities: bytes) -> bool:
    """True if one of these authorities (PEM) signed a certificate (PEM) itself.

    False too where something of them cannot be read.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        issuers = x509.load_pem_x509_certificates(authorities)
    except UNREADABLE:
        return False
    for issuer in issuers:
        try:
            certificate.verify_directly_issued_by(issuer)
        except (*UNREADABLE, InvalidSignature):
            continue
        return True
    return False


def renewal(facts: CertificateInfo, renew_at: float) -> float:
    """The epoch second at which that share of the certificate's life has passed."""
    return facts.not_before + (facts.not_after - facts.not_before) * renew_at


def _texts(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    return [each.value for each in name.get_attributes_for_oid(oid) if isinstance(each.value, str)]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    name: x509.Name, issuer: x509.Name, public: PublicKey, now: float | None, life: float
) -> x509.CertificateBuilder:
    utc = datetime.UTC
    start = datetime.datetime.now(utc) if now is None else datetime.datetime.fromtimestamp(now, utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - datetime.timedelta(seconds=SKEW))
        .not_valid_after(start + datetime.timedelta(seconds=life))
    )


def _issued(
    ca: Pair,
    name: x509.Name,
    public: PublicKey,
    now: float | None,
    life: float,
    purpose: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    authority = x509.load_pem_x509_certificate(ca.certificate)
    builder = _builder(name, authority.subject, public, now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )


def _sign(ca: Pair, builder: x509.CertificateBuilder) -> bytes:
    key: PrivateKey = load_private(ca.key)
    return _pem(builder.sign(key, algorithm(key)))
