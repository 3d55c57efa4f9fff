"""Makes and verifies statements that one key of a cluster succeeds another, signed by both. Pure.

A peer that has the former key accepts the next one by the former's signature; the next one's shows
that the sender holds it. A statement names one step: a peer that is two steps behind follows none
of them. Text of one line, ``v1.<payload>.<signature of the former>.<signature of the next>``; one
statement has one text except for its signatures, so that two of one former key are distinguishable.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from liqod.errors import ProtocolError
from liqod.identity import keys

LIMIT: Final = 4_096
"""Characters of a statement; one of two RSA keys of 4096 bits has 3,100."""
CONTEXT: Final = b"liqod succession 1\0"
"""Keeps these signatures apart from others of the same keys."""
FORMER: Final = b"former\0"
NEXT: Final = b"next\0"
_VERSION: Final = "v1"
_KEY_LIMIT: Final = 600
"""Bytes of a public key, DER; RSA of 4096 bits has 550."""


class _SuccessionPayload(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    cluster_id: Annotated[str, Meta(min_length=1, max_length=63)]
    former: Annotated[bytes, Meta(max_length=_KEY_LIMIT)]
    next: Annotated[bytes, Meta(max_length=_KEY_LIMIT)]


class Succession(msgspec.Struct, frozen=True):
    """A statement that both keys have signed.

    Attributes:
        cluster_id: the cluster of the keys, by the claim of their holder.
        former: SHA-256 of the former key, hexadecimal.
        next: the same of the present key.
        public: the present key, PEM.
    """

    cluster_id: str
    former: str
    next: str
    public: bytes


_decoder: Final = msgspec.msgpack.Decoder(_SuccessionPayload)


def state(cluster_id: str, former: bytes, following: bytes) -> str:
    """The text of a statement.

    Args:
        cluster_id: of the cluster.
        former, following: private keys, PEM.

    Raises:
        ProtocolError: one is no private key, or they are the same.
    """
    was, comes = (keys.public_der(keys.public_pem(each)) for each in (former, following))
    if was == comes:
        raise ProtocolError("a key does not follow itself")
    payload = msgspec.msgpack.encode(_SuccessionPayload(cluster_id, was, comes))
    signatures = (
        keys.sign(former, CONTEXT + FORMER + payload),
        keys.sign(following, CONTEXT + NEXT + payload),
    )
    return ".".join((_VERSION, *map(_pack, (payload, *signatures))))


def verify(text: str) -> Succession:
    """The content of a statement, if it is whole and signed by both keys that it names.

    Raises:
        ProtocolError: it is not. Nothing else is raised, whatever the text.
    """
    if len(text) > LIMIT:
        raise ProtocolError(f"the statement has {len(text)} characters, more than {LIMIT}")
    version, *parts = text.split(".")
    if version != _VERSION or len(parts) != 3:
        raise ProtocolError("this is no statement of a version that is known here")
    payload, was, comes = map(_unpack, parts)
    try:
        found = _decoder.decode(payload)
        canonical = msgspec.msgpack.encode(found) == payload
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        canonical = False
    if not canonical:
        raise ProtocolError("this is no statement about two keys")
    former, following = map(keys.public_of_der, (found.former, found.next))
    prints = keys.print_of(former), keys.print_of(following)
    if prints[0] == prints[1]:
        raise ProtocolError("a key does not follow itself")
    if not keys.verify(former, CONTEXT + FORMER + payload, was):
        raise ProtocolError("the statement is not signed by the former key")
    if not keys.verify(following, CONTEXT + NEXT + payload, comes):
        raise ProtocolError("the statement is not signed by the next key")
    return Succession(found.cluster_id, *prints, following)


def verify_for(text: str, cluster_id: str, former: str) -> Succession:
    """The content of a statement, if it is a cluster's and about its known key.

    Args:
        text: the statement.
        cluster_id: the expected cluster.
        former: SHA-256 of its known key, hexadecimal.

    Raises:
        ProtocolError: it is not, or is none.
    """
    found = verify(text)
    if found.cluster_id != cluster_id:
        raise ProtocolError(f"the statement is about {found.cluster_id}, and not {cluster_id}")
    if found.former != former:
        raise ProtocolError(
            f"the statement is about the key {found.former[:16]}…, and not {former[:16]}…"
        )
    return found


def _pack(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise ProtocolError("the statement is not in base64url") from None
    if _pack(raw) != text:
        raise ProtocolError("the statement is not in base64url")
    return raw
