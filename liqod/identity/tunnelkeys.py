"""Keys of tunnels: X25519, 32 raw bytes each, as WireGuard and Liqo keep them."""

from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from liqod.errors import ProtocolError

LENGTH: Final = 32
"""Bytes of a key, private or public."""


class TunnelKeys(msgspec.Struct, frozen=True):
    """A pair of keys.

    Attributes:
        private, public: 32 bytes each.
    """

    private: bytes
    public: bytes

    def __repr__(self) -> str:
        return f"TunnelKeys(public={self.public.hex()})"


def generate() -> TunnelKeys:
    """A new pair."""
    private = X25519PrivateKey.generate()
    return TunnelKeys(private.private_bytes_raw(), private.public_key().public_bytes_raw())


def of_private(private: bytes) -> TunnelKeys:
    """The pair of a private key.

    Raises:
        ProtocolError: it is not 32 bytes long.
    """
    if len(private) != LENGTH:
        raise ProtocolError(f"a tunnel's private key has {LENGTH} bytes, not {len(private)}")
    public = X25519PrivateKey.from_private_bytes(private).public_key()
    return TunnelKeys(private, public.public_bytes_raw())


def problem_of(public: bytes) -> str | None:
    """The reason why no tunnel can have that public key, in a clause; None if one may."""
    if len(public) != LENGTH:
        return f"a tunnel's public key has {LENGTH} bytes, not {len(public)}"
    try:
        # With a point of small order the agreed secret is public.
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return "it is a key with which nothing secret can be agreed on"
    return None
