"""Makes certificates of two tunnel ends that have each other's X25519 key, without an authority.

The secret that both compute of their own private and the other's public key is the seed of a key
pair for either side; no other party can compute it. So each end has the certificate that the other
one shows before a byte is exchanged, and pins it. TLS does the rest: it proves that the other end
has the certificate's key, protects the channel, and prevents replays. Ed25519 signs the same in the
same way each time, so that a certificate is the same bytes on every machine.
"""

import datetime
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from liqod.errors import ProtocolError

LABEL: Final = b"liqod websocket tunnel 1 "
"""Keeps these keys apart from all else that is made of the same secret."""
BEGINS: Final = datetime.datetime(2000, 1, 1)
ENDS: Final = datetime.datetime(9999, 12, 31, 23, 59, 59)
"""RFC 5280's date for no end: it ends with the tunnel's keys, and depends on no clock."""

Side = Literal["server", "client"]


class Pinned(msgspec.Struct, frozen=True):
    """The certificates and the key that one end needs for TLS.

    Attributes:
        name: 32 hexadecimal digits, by which a server recognises the peer that connects. It is
            visible on the wire, and reveals nothing of the keys.
        identity: own certificate and private key, PEM.
        peer: the other end's certificate, DER.
    """

    name: str
    identity: str
    peer: bytes

    def __repr__(self) -> str:
        return f"Pinned({self.name})"


def pinned(side: Side, private: bytes, public: bytes, peer: bytes) -> Pinned:
    """The certificates of one end.

    Args:
        side: of this end.
        private, public: its keys, 32 bytes each, X25519.
        peer: the other end's public key.

    Raises:
        ProtocolError: they are no keys, or nothing secret can be agreed on with them.
    """
    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(peer)
        )
    except ValueError:
        raise ProtocolError("with these keys nothing secret can be agreed on") from None
    both = public + peer if side == "server" else peer + public
    other: Side = "client" if side == "server" else "server"
    own, own_certificate = _certificate(_derived(secret, both, side))
    _, peer_certificate = _certificate(_derived(secret, both, other))
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pinned(
        name=_derived(secret, both, "name")[:16].hex(),
        identity=(own_certificate.public_bytes(Encoding.PEM) + key).decode(),
        peer=peer_certificate.public_bytes(Encoding.DER),
    )


def _derived(secret: bytes, both: bytes, whose: str) -> bytes:
    info = LABEL + whose.encode()
    return HKDF(algorithm=SHA256(), length=32, salt=both, info=info).derive(secret)


def _certificate(seed: bytes) -> tuple[Ed25519PrivateKey, x509.Certificate]:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "liqod")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(BEGINS).not_valid_after(ENDS)
    return key, builder.sign(key, None)
