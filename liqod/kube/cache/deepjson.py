"""Splits JSON without recursion, for objects that are nested too deeply to be decoded.

An API server accepts ten thousand levels; Python does not. A writer of an object with free-form
fields could otherwise make a whole kind unreadable. Slow, and used for such objects only; its
input comes from an API server, so it is well-formed, or its loss does no harm.
"""

import re
from collections.abc import Iterator

import msgspec

from liqod.apimachinery.meta import ObjectMeta
from liqod.apimachinery.rawobjects import UNREADABLE, Key
from liqod.errors import ProtocolError

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)


_meta = msgspec.json.Decoder(ObjectMeta)


def elements(data: bytes) -> Iterator[bytes]:
    """The elements of an array."""
    for start, end, _ in _parts(data):
        if part := data[start:end].strip():
            yield part


def members(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The members of an object: the name, as written between its quotes, and the value."""
    for start, end, colon in _parts(data):
        if colon:
            yield data[start:colon].strip()[1:-1], data[colon + 1 : end].strip()


def key_of(data: bytes) -> Key:
    """Namespace and name of an object, however it is nested. Raises ProtocolError."""
    metadata = dict(members(data)).get(b"metadata", b"{}")
    wanted = {name: value for name, value in members(metadata) if name in (b"name", b"namespace")}
    text = b",".join(b'"%b":%b' % member for member in wanted.items())
    try:
        meta = _meta.decode(b"{%b}" % text)
    except UNREADABLE as error:
        raise ProtocolError(f"an object without usable metadata: {error}") from error
    return meta.namespace, meta.name


def _parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and first colon (0 for none) of each part between the outermost commas."""
    depth = start = colon = 0
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth == 1:
                start, colon = match.end(), 0
        elif token in b"]}":
            depth -= 1
            if depth == 0:
                yield start, match.start(), colon
                return
        elif depth == 1 and token == b",":
            yield start, match.start(), colon
            start, colon = match.end(), 0
        elif depth == 1 and token == b":" and not colon:
            colon = match.start()
