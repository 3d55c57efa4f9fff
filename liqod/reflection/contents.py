"""Tells a change of an object's content from one of no more than its status, by its metadata."""

import msgspec


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata by which an object is still as we left it; no more of it is to be compared."""

    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Object(msgspec.Struct, frozen=True):
    metadata: _Content = _Content()


_content = msgspec.json.Decoder(_Object)


def differs(old: bytes, new: bytes) -> bool:
    """Whether more changed than the status; without a generation, whatever changed counts."""
    content = _content.decode(new).metadata
    return not content.generation or content != _content.decode(old).metadata
