"""Bytes as messages, invitations and adverts carry them: base64url without padding. Pure."""

import base64
import binascii

from liqod.errors import ProtocolError


def pack(data: bytes) -> str:
    """The text of some bytes."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unpack(text: str) -> bytes:
    """The bytes again.

    Raises:
        ProtocolError: it is not base64url, or not the one way of writing these bytes.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("this is not base64") from None
    if pack(data) != text:
        raise ProtocolError("this base64 has bits that mean nothing")
    return data
