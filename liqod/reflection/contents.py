"""Distinguishes a change of an object's content from one of its status alone, by its metadata."""

import msgspec


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that shows if an object is still as we left it; nothing else is compared."""

    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _ContentObject(msgspec.Struct, frozen=True):
    metadata: _Content = _Content()


_content = msgspec.json.Decoder(_ContentObject)


def differs(old: bytes, new: bytes) -> bool:
    """True if more changed than the status; without a generation every change counts."""
    content = _content.decode(new).metadata
    return not content.generation or content != _content.decode(old).metadata
