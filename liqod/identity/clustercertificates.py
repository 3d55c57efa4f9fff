"""Makes the certificate of a cluster's key, with which its daemon listens for other daemons.

It is signed by itself: there is no authority. A server that completes TLS with it holds the
cluster's key. The other side has that key already (from an invitation, an advert or its
configuration), or a person compares words. It contains only the key: no name, and dates without a
beginning or an end, so that it depends on no clock.
"""

import datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from liqod.errors import ProtocolError
from liqod.identity import keys

BEGINS: Final = datetime.datetime(2000, 1, 1)
ENDS: Final = datetime.datetime(9999, 12, 31, 23, 59, 59)
"""RFC 5280's date for no end."""
DER_LIMIT: Final = 16 * 1024
"""Bytes of a certificate that is looked into at all; an RSA key of 4096 bits makes 1,300."""


class ClusterCertificate(msgspec.Struct, frozen=True):
    """The certificate that a listener shows, and its key.

    Attributes:
        identity: certificate and private key, PEM, as a TLS library takes them.
        der: the certificate alone; the proofs of a handshake cover it.
    """

    identity: str
    der: bytes

    def __repr__(self) -> str:
        return f"ClusterCertificate({len(self.der)} bytes)"


def certificate_of(private: bytes) -> ClusterCertificate:
    """The certificate of a cluster's key.

    Ed25519 and RSA sign the same in the same way each time, so that the certificate is the same
    bytes after a restart; ECDSA's differs, which does no harm: proofs are made of the one shown.

    Args:
        private: PEM, of Ed25519, RSA or ECDSA.

    Raises:
        ProtocolError: it is no such key.
    """
    key = keys.load_private(private)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "liqod")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(BEGINS).not_valid_after(ENDS)
    digest = None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()
    certificate = builder.sign(key, digest)
    pem = certificate.public_bytes(Encoding.PEM) + keys.private_pem(key)
    return ClusterCertificate(identity=pem.decode(), der=certificate.public_bytes(Encoding.DER))


def key_of(der: bytes) -> bytes:
    """The public key, PEM, that a certificate is of.

    Args:
        der: as TLS gives it of the other side. Its names, dates and signature do not matter: TLS
            has proved that the other side holds the key.

    Raises:
        ProtocolError: it is no certificate, or of a key that :func:`keys.load_public` refuses.
    """
    if len(der) > DER_LIMIT:
        raise ProtocolError(f"the certificate has {len(der)} bytes, more than {DER_LIMIT}")
    try:
        key = x509.load_der_x509_certificate(der).public_key()
    except keys.UNREADABLE as error:
        raise ProtocolError("the other side shows no certificate that can be read") from error
    return keys.encode_public(keys.usable(key))
