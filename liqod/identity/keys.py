"""Makes and reads private and public keys; signs and verifies the nonce of a peering.

A cluster has one key (Secret ``authentication-keys``: PEM PKCS#8 and PEM PKIX). Ed25519 is what
liqod makes; RSA and ECDSA keys of other clusters, and of clusters that came from Liqo, are
accepted. Liqo before 1.0.2 sent a public key as the raw 32 bytes of Ed25519; so may a Tenant.
"""

import functools
import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from liqod.errors import ProtocolError

PrivateKey = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey

RAW_ED25519 = 32
"""Length of a public key as Liqo before 1.0.2 sent it."""
LEAST_RSA_BITS = 2048
LARGEST_EXPONENT = (1 << 31) - 1
"""The largest exponent of an RSA key, as Go's ``crypto/rsa`` has it: Kubernetes and Liqo take no
other. With one as long as the modulus a signature takes 500 times as long to verify, which a
stranger may have us do."""
UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)
"""Exceptions over a key, a request or a certificate that others made, when it is loaded or only
when one of its parts is read."""


def generate() -> bytes:
    """A new Ed25519 private key, PEM PKCS#8."""
    return private_pem(ed25519.Ed25519PrivateKey.generate())


def generate_tls() -> bytes:
    """A new ECDSA P-256 private key, PEM PKCS#8: for servers whose clients may lack Ed25519."""
    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def generate_rsa(bits: int = LEAST_RSA_BITS) -> bytes:
    """A new RSA private key, PEM PKCS#8: for API servers in front of which RSA is demanded."""
    return private_pem(rsa.generate_private_key(public_exponent=65537, key_size=bits))


def generate_like(private: bytes) -> bytes:
    """A new private key of the kind that another one is of, PEM PKCS#8: where RSA is demanded, it
    stays RSA.

    Raises:
        ProtocolError: as :func:`load_private`.
    """
    match load_private(private):
        case ed25519.Ed25519PrivateKey():
            return generate()
        case rsa.RSAPrivateKey() as key:
            return generate_rsa(key.key_size)
        case key:
            return private_pem(ec.generate_private_key(key.curve))


def private_pem(key: PrivateKey) -> bytes:
    """A private key as unencrypted PEM PKCS#8."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@functools.lru_cache(maxsize=4)
def load_private(pem: bytes) -> PrivateKey:
    """The private key in a PEM text.

    The last few are kept: to check an RSA key of 4096 bits as it is read takes 0.3 s.

    Raises:
        ProtocolError: it is no unencrypted Ed25519, RSA or ECDSA key.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except UNREADABLE as error:
        raise ProtocolError("the private key is no unencrypted PEM key") from error
    if not isinstance(key, PrivateKey):
        raise ProtocolError("the private key is neither Ed25519 nor RSA nor ECDSA")
    return key


def load_public(data: bytes) -> PublicKey:
    """The public key in a PEM ``PUBLIC KEY``, or in the raw 32 bytes of an Ed25519 key.

    Raises:
        ProtocolError: it is neither, of another algorithm, or RSA of less than 2048 bits.
    """
    try:
        if len(data) == RAW_ED25519:
            return ed25519.Ed25519PublicKey.from_public_bytes(data)
        key = serialization.load_pem_public_key(data)
    except UNREADABLE as error:
        raise ProtocolError("the public key is no PEM public key") from error
    return usable(key)


def usable(key: object) -> PublicKey:
    """The key, if it is one that peers may have.

    Raises:
        ProtocolError: it is of another algorithm, or RSA of less than 2048 bits or with an exponent
            over :data:`LARGEST_EXPONENT`.
    """
    if not isinstance(key, PublicKey):
        raise ProtocolError("the public key is neither Ed25519 nor RSA nor ECDSA")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise ProtocolError(f"the public RSA key has {key.key_size} bits, {LEAST_RSA_BITS} needed")
    if isinstance(key, rsa.RSAPublicKey) and key.public_numbers().e > LARGEST_EXPONENT:
        raise ProtocolError("the public RSA key has an exponent of more than 31 bits")
    return key


def public_pem(private: bytes) -> bytes:
    """The PEM PKIX public key of a PEM private key.

    Raises:
        ProtocolError: as :func:`load_private`.
    """
    return encode_public(load_private(private).public_key())


def encode_public(key: PublicKey) -> bytes:
    """A public key as PEM PKIX (``SubjectPublicKeyInfo``)."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def same_public(one: bytes, other: bytes) -> bool:
    """True if two public keys, each PEM or raw, are the same key.

    Raises:
        ProtocolError: as :func:`load_public`.
    """
    return encode_public(load_public(one)) == encode_public(load_public(other))


def print_of(public: bytes) -> str:
    """SHA-256 of a public key, PEM or raw, in hexadecimal.

    Raises:
        ProtocolError: as :func:`load_public`.
    """
    return hashlib.sha256(public_der(public)).hexdigest()


def public_der(public: bytes) -> bytes:
    """A public key, PEM or raw, as DER PKIX.

    Raises:
        ProtocolError: as :func:`load_public`.
    """
    return load_public(public).public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def public_of_der(der: bytes) -> bytes:
    """A public key in DER PKIX as PEM.

    Raises:
        ProtocolError: as :func:`load_public`.
    """
    try:
        key = serialization.load_der_public_key(der)
    except UNREADABLE as error:
        raise ProtocolError("the public key is no DER public key") from error
    return encode_public(usable(key))


def sign(private: bytes, message: bytes) -> bytes:
    """A signature: Ed25519 plain, RSA as PKCS#1 v1.5 with SHA-256, ECDSA as ASN.1 with SHA-256.

    Raises:
        ProtocolError: as :func:`load_private`.
    """
    match load_private(private):
        case ed25519.Ed25519PrivateKey() as key:
            return key.sign(message)
        case rsa.RSAPrivateKey() as key:
            return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        case key:
            return key.sign(message, ec.ECDSA(hashes.SHA256()))


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """True if the signature is that key's over that message; the schemes are those of `sign`.

    Raises:
        ProtocolError: as :func:`load_public`.
    """
    try:
        match load_public(public):
            case ed25519.Ed25519PublicKey() as key:
                key.verify(signature, message)
            case rsa.RSAPublicKey() as key:
                key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
            case key:
                key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
