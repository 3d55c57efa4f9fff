"""Certificates and requests that no program of ours makes, with bytes of somebody's choice."""

from base64 import b64encode
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from liqod.identity import certificaterequests, certificates, keys

DER = serialization.Encoding.DER


def pem(der: bytes, what: str) -> bytes:
    """DER as PEM."""
    text = b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {what}-----", *lines, f"-----END {what}-----", ""]).encode()


def request(old: bytes, new: bytes) -> bytes:
    """Rome's request with ``new`` in the place of ``old``, signed as it then is."""
    private = keys.generate()
    made = x509.load_pem_x509_csr(certificaterequests.make_csr(private, "rome", "liqo.io"))
    before = made.tbs_certrequest_bytes
    assert old in before
    after = before.replace(old, new)
    signature = keys.sign(private, after)
    whole = made.public_bytes(DER).replace(before, after)
    return pem(whole[: -len(signature)] + signature, "CERTIFICATE REQUEST")


def certificate(old: bytes, new: bytes) -> bytes:
    """Milan's certificate with ``new`` in the place of ``old``."""
    made = x509.load_pem_x509_certificate(certificates.make_ca("milan").certificate)
    before = made.public_bytes(DER)
    assert old in before
    return pem(before.replace(old, new), "CERTIFICATE")


NAMES: Sequence[tuple[bytes, bytes]] = [
    (b"\x13\x04rome", b"\x0c\x04\xff\xfe\xff\xfe"),
    (b"\x13\x04rome", b"\x1e\x04\xd8\x00\xd8\x00"),
    (b"\x13\x04rome", b"\x03\x04\x00\x01\x02\x03"),
]
"""A name of rome's that is no UTF-8, half a surrogate pair, and bits."""
UNKNOWN_KEY = (bytes.fromhex("06032b6570"), bytes.fromhex("06032b657f"))
"""Another algorithm than Ed25519, which nobody knows."""
UNKNOWN_CURVE = (bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d03017f"))
"""Another curve than P-256, which nobody knows."""
