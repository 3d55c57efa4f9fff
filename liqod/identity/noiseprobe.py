"""Probes a WireGuard by the first message of its own handshake.

A WireGuard answers only peers whose key is configured. So both ends compute, of their own private
key and the other's public one, a pair of keys that no other party can compute, and the end that is
dialled configures its public half beside the peer's, as one that may send no packet at all. The
pair's holder probes with it, from any socket; WireGuard itself answers, at its own port, and the
tunnel goes on undisturbed. The messages are those of WireGuard's Noise_IKpsk2, with no key shared
before.
"""

import hashlib
import hmac
import secrets
import struct
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from liqod.errors import ProtocolError
from liqod.identity.tunnelkeys import TunnelKeys, of_private

LABEL: Final = b"liqod asking 1"
"""Keeps these keys apart from all else that is made of the same secret."""
CONSTRUCTION: Final = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"
IDENTIFIER: Final = b"WireGuard v1 zx2c4 Jason@zx2c4.com"
"""Both begin every handshake of WireGuard's."""
MAC: Final = b"mac1----"
QUESTION, ANSWER = 1, 2
"""Types of the two messages."""
ANSWER_LENGTH: Final = 92
EPOCH: Final = 0x400000000000000A
"""The Unix epoch in TAI64, as WireGuard counts it: leap seconds are left out."""
_NONCE: Final = bytes(12)


def probe_keys(private: bytes, public: bytes, peer: bytes, *, dialled: bool) -> TunnelKeys:
    """The pair of keys that probes the end that is dialled; both ends compute the same.

    Args:
        private, public: of this end, 32 bytes each, X25519.
        peer: the other end's public key.
        dialled: whether this is the end that is dialled.

    Raises:
        ProtocolError: they are no keys, or nothing secret can be agreed on with them.
    """
    try:
        secret = _agreed(private, peer)
    except ValueError:
        raise ProtocolError("with these keys nothing secret can be agreed on") from None
    both = public + peer if dialled else peer + public
    return of_private(HKDF(algorithm=SHA256(), length=32, salt=both, info=LABEL).derive(secret))


class NoiseProbe(msgspec.Struct, frozen=True):
    """One probe message, with the values to recognise its answer.

    Attributes:
        datagram: the message; may be sent to several endpoints.
        index: the number of the message, which its answer repeats.
        keys: of the sender.
        ephemeral: private key of this one handshake.
        chain, digest: of the handshake so far.
    """

    datagram: bytes
    index: bytes
    keys: TunnelKeys
    ephemeral: bytes
    chain: bytes
    digest: bytes

    def __repr__(self) -> str:
        return f"NoiseProbe({self.index.hex()})"

    def is_answer(self, datagram: bytes) -> bool:
        """True if it is the answer of the probed WireGuard to exactly this message."""
        if len(datagram) != ANSWER_LENGTH or datagram[:4] != bytes((ANSWER, 0, 0, 0)):
            return False
        if datagram[8:12] != self.index:
            return False
        theirs, sealed = datagram[12:44], datagram[44:60]
        try:
            (chain,) = _derived(self.chain, theirs, 1)
            digest = _hash(self.digest + theirs)
            (chain,) = _derived(chain, _agreed(self.ephemeral, theirs), 1)
            (chain,) = _derived(chain, _agreed(self.keys.private, theirs), 1)
            chain, shared, key = _derived(chain, bytes(32), 3)
            ChaCha20Poly1305(key).decrypt(_NONCE, sealed, _hash(digest + shared))
        except (InvalidTag, ValueError):
            return False
        return True


def make_probe(keys: TunnelKeys, peer: bytes, nanoseconds: int) -> NoiseProbe:
    """A probe message. Of two with one pair of keys the later must have the later time.

    Args:
        keys: of :func:`probe_keys`.
        peer: public key of the probed end.
        nanoseconds: Unix time.

    Raises:
        ProtocolError: nothing secret can be agreed on with the peer's key.
    """
    made = X25519PrivateKey.generate()
    ephemeral, own = made.private_bytes_raw(), made.public_key().public_bytes_raw()
    index = secrets.token_bytes(4)
    chain = _hash(CONSTRUCTION)
    digest = _hash(_hash(_hash(chain + IDENTIFIER) + peer) + own)
    (chain,) = _derived(chain, own, 1)
    try:
        chain, key = _derived(chain, _agreed(ephemeral, peer), 2)
        sealed = ChaCha20Poly1305(key).encrypt(_NONCE, keys.public, digest)
        digest = _hash(digest + sealed)
        chain, key = _derived(chain, _agreed(keys.private, peer), 2)
    except ValueError:
        raise ProtocolError("with this key nothing secret can be agreed on") from None
    whole, part = divmod(nanoseconds, 1_000_000_000)
    when = ChaCha20Poly1305(key).encrypt(_NONCE, struct.pack("!QI", EPOCH + whole, part), digest)
    digest = _hash(digest + when)
    datagram = bytes((QUESTION, 0, 0, 0)) + index + own + sealed + when
    mac = hashlib.blake2s(datagram, key=_hash(MAC + peer), digest_size=16).digest()
    return NoiseProbe(datagram + mac + bytes(16), index, keys, ephemeral, chain, digest)


def _agreed(private: bytes, public: bytes) -> bytes:
    """Raises ValueError: no key, or one of small order."""
    return X25519PrivateKey.from_private_bytes(private).exchange(
        X25519PublicKey.from_public_bytes(public)
    )


def _hash(data: bytes) -> bytes:
    return hashlib.blake2s(data).digest()


def _derived(key: bytes, data: bytes, count: int) -> list[bytes]:
    """HKDF with BLAKE2s, as Noise has it."""
    secret = hmac.digest(key, data, "blake2s")
    found, last = list[bytes](), b""
    for number in range(1, count + 1):
        last = hmac.digest(secret, last + bytes((number,)), "blake2s")
        found.append(last)
    return found
