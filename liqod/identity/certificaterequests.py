"""Makes certificate signing requests for own identities, and inspects those of others.

A request for a client certificate of our API server names its own user and groups, so it must have
exactly the form of the protocol: one PEM block with nothing around it, a subject of one CN and one
O, no extension or other attribute, a signature of its own key.
"""

import binascii
import re

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from liqod.errors import ProtocolError
from liqod.identity.keys import (
    UNREADABLE,
    PrivateKey,
    PublicKey,
    encode_public,
    load_private,
    same_public,
)

ONE_PEM = re.compile(
    rb"-----BEGIN CERTIFICATE REQUEST-----\r?\n"
    rb"(?:[A-Za-z0-9+/=]+\r?\n)+"
    rb"-----END CERTIFICATE REQUEST-----\r?\n?"
)
LARGEST = 16 * 1024
"""Bytes; a request for an RSA-4096 key has less than 2 KiB."""
_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,./:=?-]*")
"""The texts that fit ASN.1's PrintableString."""


class Inspected(msgspec.Struct, frozen=True):
    """The contents of a well-formed request.

    Attributes:
        common_name: the user.
        organization: the group.
        public_key: PEM PKIX.
    """

    common_name: str
    organization: str
    public_key: bytes


def algorithm(key: PrivateKey | PublicKey) -> hashes.SHA256 | None:
    """The digest that certificates and requests of this key are signed with: none for Ed25519."""
    ed = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
    return None if isinstance(key, ed) else hashes.SHA256()


def subject(common_name: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    """A distinguished name in the order and with the types of string that Go's library writes.

    A Liqo provider compares a request by its bytes with the one that it has signed before.
    """
    names = [_attribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*names, _attribute(NameOID.COMMON_NAME, common_name)])


def make_csr(private: bytes, common_name: str, organization: str) -> bytes:
    """A PEM request of that key for user ``common_name`` in group ``organization``.

    Raises:
        ProtocolError: the private key is none.
    """
    key = load_private(private)
    builder = x509.CertificateSigningRequestBuilder(subject(common_name, (organization,)))
    request = builder.sign(key, algorithm(key))
    return request.public_bytes(serialization.Encoding.PEM)


def inspect(csr: bytes) -> Inspected:
    """The contents of the request, if it has exactly the form of the protocol.

    Raises:
        ProtocolError: anything else; the message gives the fault in one sentence.
    """
    if len(csr) > LARGEST or ONE_PEM.fullmatch(csr) is None:
        raise ProtocolError("the CSR is not exactly one PEM block without anything around it")
    try:
        request = x509.load_pem_x509_csr(csr)
        key, name = request.public_key(), request.subject
        attributes = list(request.attributes)
        extensions = list(request.extensions)
        valid = request.is_signature_valid
        if request.public_bytes(serialization.Encoding.DER) != _der(csr):
            raise ProtocolError("the CSR carries bytes after its end")
    except (*UNREADABLE, x509.DuplicateExtension) as error:
        raise ProtocolError("the CSR cannot be parsed") from error
    if not isinstance(key, PublicKey):
        raise ProtocolError("the CSR's key is neither Ed25519 nor RSA nor ECDSA")
    if attributes or extensions:
        raise ProtocolError("the CSR carries extensions or attributes; none is allowed")
    if not valid:
        raise ProtocolError("the CSR is not signed by its own key")
    common_name, organization = _subject(name)
    return Inspected(common_name, organization, encode_public(key))


def check(csr: bytes, *, common_name: str, organization: str, public_key: bytes | None) -> None:
    """Check a request against the name and the key that a peer may have.

    Args:
        public_key: PEM or raw key that the request must be for; None where none was exchanged.

    Raises:
        ProtocolError: the form, the subject or the key is wrong.
    """
    found = inspect(csr)
    if (found.common_name, found.organization) != (common_name, organization):
        raise ProtocolError(
            f"the CSR asks for CN={found.common_name}, O={found.organization};"
            f" this peer may have CN={common_name}, O={organization}"
        )
    if public_key is not None and not same_public(found.public_key, public_key):
        raise ProtocolError("the CSR is for another key than the Tenant's")


def _attribute(oid: ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    printable = _PRINTABLE.fullmatch(value) is not None
    kind = _ASN1Type.PrintableString if printable else _ASN1Type.UTF8String
    return x509.NameAttribute(oid, value, kind)


def _der(pem: bytes) -> bytes:
    body = b"".join(pem.split(b"-----")[2].split())
    return binascii.a2b_base64(body, strict_mode=True)


def _subject(name: x509.Name) -> tuple[str, str]:
    wanted = {NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME}
    found = {each.oid: each.value for each in name}
    if len(list(name)) != 2 or set(found) != wanted:
        raise ProtocolError("the CSR's subject is not exactly one CN and one O")
    common, organization = found[NameOID.COMMON_NAME], found[NameOID.ORGANIZATION_NAME]
    if not isinstance(common, str) or not isinstance(organization, str):
        raise ProtocolError("the CSR's subject is not text")
    return common, organization
