"""Encodes and verifies adverts: announcements of a cluster, signed by its key. Pure.

An advert is a hint: that somebody with this key says so, and no more. A cluster that sees it pins
the key and calls, or does not. Text of one line, ``v1.<payload>.<signature>``, small enough for the
TXT records of mDNS and DNS.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from liqod.errors import ConfigError, ProtocolError
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.handshake.protocol.invitationtokens import ADDRESSES, address_problem
from liqod.handshake.protocol.messages import (
    SAID,
    Capabilities,
    Quantities,
    Versions,
    quantities_problem,
)
from liqod.identity import keys
from liqod.model import ids
from liqod.model.text import printable

LIMIT: Final = 1_200
"""Characters of an advert: one datagram of mDNS, with what is around it, crosses an Ethernet whole
(RFC 6762, 17)."""
CONTEXT: Final = b"liqod advert 1\0"
"""Keeps this signature apart from others of the same key."""
_VERSION: Final = "v1"
_KEY_LIMIT: Final = 600
"""Bytes of a public key, DER; RSA of 4096 bits has 550."""


class Advert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The contents of an advert.

    Attributes:
        cluster_id: as the announcer says; nobody vouches for it.
        serial: grows with each advert of a key (seconds since 1970 when it was made): of two, the
            larger one counts. Compared with no clock.
        addresses: ``HOST:PORT`` of the listener; none: where the advert came from.
        versions, capabilities: as in ``Hello``.
        free: resources that are granted to nobody, where they are announced at all.
    """

    cluster_id: Annotated[str, Meta(max_length=ids.ID_LIMIT)]
    serial: Annotated[int, Meta(ge=0, lt=1 << 53)]
    addresses: Annotated[
        tuple[Annotated[str, Meta(max_length=262)], ...], Meta(max_length=ADDRESSES)
    ] = ()
    versions: Versions = (1,)
    capabilities: Capabilities = ()
    free: Quantities = {}


class VerifiedAdvert(msgspec.Struct, frozen=True, kw_only=True):
    """An advert whose signature is good.

    Attributes:
        advert: what it says.
        public_key: of who says it, PEM.
        key: SHA-256 of it, 64 hexadecimal digits.
    """

    advert: Advert
    public_key: str
    key: str


class _AdvertPayload(Advert, frozen=True, kw_only=True, omit_defaults=True):
    key: Annotated[bytes, Meta(max_length=_KEY_LIMIT)]


_decoder: Final = msgspec.msgpack.Decoder(_AdvertPayload)


def sign(advert: Advert, private: bytes) -> str:
    """The text of an advert.

    Raises:
        ConfigError: it is larger than :data:`LIMIT`, or holds what no advert may.
        ProtocolError: the private key is none.
    """
    if problem := _problem(advert):
        raise ConfigError(f"this cannot be announced: {problem}")
    fields = {name: getattr(advert, name) for name in advert.__struct_fields__}
    payload = msgspec.msgpack.encode(
        _AdvertPayload(**fields, key=keys.public_der(keys.public_pem(private)))
    )
    signature = keys.sign(private, CONTEXT + payload)
    text = f"{_VERSION}.{pack(payload)}.{pack(signature)}"
    if len(text) > LIMIT:
        raise ConfigError(
            f"the advert has {len(text)} characters, more than {LIMIT}: announce fewer "
            "addresses or resources, or use a key of Ed25519"
        )
    return text


def verify(text: str) -> VerifiedAdvert:
    """Decodes an advert, and verifies that it is signed by the key that it names.

    Raises:
        ProtocolError: it is not. Nothing else is raised, whatever the text.
    """
    if len(text) > LIMIT:
        raise ProtocolError(f"the advert has {len(text)} characters, more than {LIMIT}")
    version, *parts = text.split(".")
    if version != _VERSION or len(parts) != 2:
        raise ProtocolError("this is no advert of a version that is known here")
    payload, signature = map(unpack, parts)
    try:
        found = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"this is no advert: {printable(str(error))[:SAID]}") from None
    if problem := _problem(found):
        raise ProtocolError(f"advert: {printable(problem)[:SAID]}")
    public = keys.public_of_der(found.key)
    if not keys.verify(public, CONTEXT + payload, signature):
        raise ProtocolError("the advert is not signed by the key that it names")
    fields = {name: getattr(found, name) for name in Advert.__struct_fields__}
    return VerifiedAdvert(
        advert=Advert(**fields), public_key=public.decode(), key=keys.print_of(public)
    )


def _problem(advert: Advert) -> str:
    if problem := ids.cluster_id_problem(advert.cluster_id) or quantities_problem(advert.free):
        return problem
    return next(filter(None, map(address_problem, advert.addresses)), "")
