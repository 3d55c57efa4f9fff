"""The statements that both sides of a handshake sign, and the digest of the words. Pure.

Each side signs, with its cluster's key, a digest of everything that was said until then and of the
certificate that the listener shows in TLS (RFC 5929, ``tls-server-end-point``). That certificate is
of the listener's cluster key, which leaves no process: nobody in the middle can show it, so whoever
shows another one gets proofs that are good for nothing else. Both nonces are in it: a proof of
another meeting is none of this one.

Why not TLS's exporter (RFC 9266), which names the very connection: Python's ``ssl`` has none.
pyOpenSSL has; it was measured beside cryptography (VmRSS): 0.8 MB to import it, 1.4 MB with a
context, and 26 KiB more for each connection, 13 MB for 500. That could be paid, and buys nothing
here: an exporter helps where somebody else can show the listener's certificate, and whoever holds
this one's key can sign a proof over an exporter just as well. The cost would be a second TLS
library in the daemon, that Trio's streams do not speak.
"""

import hashlib
import hmac
from typing import Final, Literal

from liqod.identity import keys

CONTEXT: Final = b"liqod peering 1\0"
"""Keeps these signatures apart from whatever else a cluster's key signs: a nonce of Liqo is base64
(``consumer/identities/signing.py``), TLS signs what begins with 64 spaces."""
WORDS: Final = b"liqod words 1\0"
"""The same for the digest of the words."""
NONCE: Final = 32
"""Bytes of each side's nonce."""

Role = Literal["dialler", "listener"]


def commitment(nonce: bytes) -> bytes:
    """The SHA-256 of a dialler's nonce, which it sends before it has the listener's."""
    return hashlib.sha256(nonce).digest()


def keeps(commitment_: bytes, nonce: bytes) -> bool:
    """True if this is the nonce that was committed to."""
    return hmac.compare_digest(commitment(nonce), commitment_)


def transcript(certificate: bytes, hello: str, welcome: str, nonce: bytes) -> bytes:
    """The digest of a meeting, 32 bytes.

    Args:
        certificate: the listener's, DER, as TLS showed it.
        hello, welcome: the two messages, letter by letter as they crossed.
        nonce: the dialler's; the listener's is in its ``Welcome``.
    """
    digest = hashlib.sha256()
    for part in (certificate, hello.encode(), welcome.encode(), nonce):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def statement(role: Role, digest: bytes) -> bytes:
    """The bytes that a side signs: no side's statement can be taken for the other's."""
    return CONTEXT + role.encode() + b"\0" + digest


def prove(private: bytes, role: Role, digest: bytes) -> bytes:
    """One side's signature.

    Raises:
        ProtocolError: the private key is none.
    """
    return keys.sign(private, statement(role, digest))


def proved(public: bytes, role: Role, digest: bytes, signature: bytes) -> bool:
    """True if a signature is that side's over that meeting.

    Raises:
        ProtocolError: the public key is none.
    """
    return keys.verify(public, statement(role, digest), signature)


def seen(dialler: bytes, listener: bytes, nonce_d: bytes, nonce_l: bytes) -> bytes:
    """The digest from which the words are made, of both keys and both nonces, 32 bytes.

    Args:
        dialler, listener: public keys, PEM; however they are written, the same keys give the same.
        nonce_d, nonce_l: 32 bytes each.

    Raises:
        ProtocolError: one is no public key.
    """
    both = bytes.fromhex(keys.print_of(dialler)) + bytes.fromhex(keys.print_of(listener))
    return hashlib.sha256(WORDS + both + nonce_d + nonce_l).digest()
