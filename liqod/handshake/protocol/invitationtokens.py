"""An invitation as the one line that is handed over: ``liqod://HOST:PORT[,HOST:PORT]/#v1.<text>``.

``#b1.`` is of one that asks its bearer to lend. Where the listener is, which key it has to show,
and the secret. The part after ``#`` is never sent by a program that takes the line for a URL. The
line is checked whole, so that a part that is missing or mistyped is said at once. Pure.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from liqod.errors import ConfigError, ProtocolError
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.model import endpoints, ids

SCHEME: Final = "liqod://"
PORT: Final = 6446
"""The listener's, where an address names none."""
LINE_LIMIT: Final = 2_000
"""Characters of a line."""
ADDRESSES: Final = 8
"""Addresses of one line."""
SECRET: Final = 16
"""Bytes of a secret: nobody guesses it, so a plain hash of it is enough to keep."""
_PRINT: Final = 32
_CHECK: Final = 4
_LENDS, _BORROWS = "v1.", "b1."
"""How the secret part begins, by what the listener's cluster does. A liqod that does not know of
the second takes it for a later version, and says so."""


class InvitationToken(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the line.

    Attributes:
        addresses: ``HOST:PORT`` each, in the order in which they are tried.
        id: name of the Invitation.
        secret: 16 bytes.
        key: SHA-256 of the listener's public key, 64 hexadecimal digits (``keys.print_of``).
        borrow: whether the listener's cluster wants to borrow from whoever brings the line.
    """

    addresses: tuple[str, ...]
    id: str
    secret: bytes
    key: str
    borrow: bool = False

    def __repr__(self) -> str:
        return f"InvitationToken({','.join(self.addresses)}, {self.id})"


def address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST``, ``HOST:PORT``, ``[IPv6]`` or ``[IPv6]:PORT``.

    Raises:
        ConfigError: it is none of these.
    """
    bare = text.endswith("]") if text.startswith("[") else ":" not in text
    found = None if "%" in text else endpoints.split(f"{text}:{PORT}" if bare else text)
    if found is None:
        raise ConfigError(f"{text[:80]!r} is no address: write HOST:PORT, or [IPv6]:PORT")
    return found


def address_problem(text: str) -> str:
    """Why this is no address, or nothing."""
    try:
        address(text)
    except ConfigError as error:
        return str(error)
    return ""


def secret_hash(secret: bytes) -> str:
    """The hash of a secret that is kept: its SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(b"liqod invitation 1\0" + secret).hexdigest()


def same_secret(hash_: str, secret: bytes) -> bool:
    """True if this is the secret of that hash; takes the same time for each wrong one."""
    return hmac.compare_digest(secret_hash(secret).encode(), hash_.encode())


def format_token(token: InvitationToken) -> str:
    """The line.

    Raises:
        ConfigError: there is no address or too many, one is none, or the id is no name.
    """
    if not 0 < len(token.addresses) <= ADDRESSES:
        raise ConfigError(f"an invitation names 1 to {ADDRESSES} addresses of the listener")
    where = ",".join(endpoints.join(*address(each)) for each in token.addresses)
    if not ids.is_dns_label(token.id):
        raise ConfigError(f"{token.id[:80]!r} is no name of an invitation")
    if len(token.secret) != SECRET or len(bytes.fromhex(token.key)) != _PRINT:
        raise ConfigError("an invitation has a secret of 16 bytes and a key's SHA-256")
    body = bytes.fromhex(token.key) + token.secret + token.id.encode()
    kind = _BORROWS if token.borrow else _LENDS
    return f"{SCHEME}{where}/#{kind}{pack(_sum(kind, where, body) + body)}"


def parse_token(line: str) -> InvitationToken:
    """Parses the line of an invitation.

    Raises:
        ConfigError: it is no invitation, of a later version, or not whole; the message does not
            hold the secret.
    """
    line = line.strip()
    if not line.startswith(SCHEME) or len(line) > LINE_LIMIT:
        raise ConfigError(
            "this is no invitation: one is a single line that begins with liqod://, as "
            "`liqod invite` prints it"
        )
    where, found, fragment = line[len(SCHEME) :].partition("/#")
    if not found:
        raise ConfigError(
            "the invitation ends before its secret: quote the line, and copy it with all that "
            "follows #"
        )
    kind = fragment[: len(_LENDS)]
    if kind not in (_LENDS, _BORROWS):
        raise ConfigError("this invitation is of another version: take a newer liqod")
    body = _body(kind, where, fragment[len(kind) :])
    addresses = tuple(endpoints.join(*address(each)) for each in where.split(",")[: ADDRESSES + 1])
    if len(addresses) > ADDRESSES:
        raise ConfigError(f"an invitation names at most {ADDRESSES} addresses")
    name = body[_PRINT + SECRET :].decode("ascii", "replace")
    if not ids.is_dns_label(name):
        raise ConfigError("the invitation names no invitation: ask for another one")
    secret = body[_PRINT : _PRINT + SECRET]
    return InvitationToken(
        addresses=addresses,
        id=name,
        secret=secret,
        key=body[:_PRINT].hex(),
        borrow=kind == _BORROWS,
    )


def _body(kind: str, where: str, text: str) -> bytes:
    """Key, secret and id, if the line is whole."""
    try:
        data = unpack(text)
    except ProtocolError:
        data = b""
    check, body = data[:_CHECK], data[_CHECK:]
    if len(body) < _PRINT + SECRET or check != _sum(kind, where, body):
        raise ConfigError("the invitation is damaged: a part of the line is missing or changed")
    return body


def _sum(kind: str, where: str, body: bytes) -> bytes:
    """Checksum of the whole line; also over its kind, where the first version had none."""
    whole = where if kind == _LENDS else f"{kind}{where}"
    return hashlib.sha256(whole.encode() + b"\0" + body).digest()[:_CHECK]
