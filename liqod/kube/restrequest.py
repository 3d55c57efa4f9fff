"""The parts of a request for an object: its target, its headers, and its name in statistics."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import Key, decode_as
from liqod.errors import ProtocolError

Query = Mapping[str, str | Sequence[str]]
JSON = "application/json"


def namespace_of(kind: Kind, given: str | None, key: Key) -> str | None:
    """The namespace of an object. Raises ValueError if it needs one and has none."""
    namespace = given or key[0] or None
    if kind.namespaced and namespace is None:
        raise ValueError(f"{kind.name} {key[1]}: no namespace")
    return namespace


def decode_written(body: bytes) -> Partial:
    """Decode the response to a write. Raises ProtocolError if it is not the written object."""
    found: Partial = decode_as(body, Partial)
    if not found.metadata.name:
        raise ProtocolError("the answer to a write is no object")
    return found


def headers_of(
    accept: str, body: bytes | None, more: Mapping[str, str] | None
) -> tuple[tuple[str, str], ...]:
    """The headers of a request; names in lower case, so that one replaces the other."""
    headers = {"accept": accept} if accept else {}
    if body is not None:
        headers["content-type"] = JSON
    headers |= {name.lower(): value for name, value in (more or {}).items()}
    return tuple(headers.items())


def target(path: str, query: Query | None) -> str:
    """Path and query in the form of the request line."""
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def label(verb: str, kind: Kind, subresource: str = "") -> tuple[str, str]:
    """The labels of a request in statistics: its verb, its resource."""
    return verb, f"{kind.plural}/{subresource}" if subresource else kind.plural
