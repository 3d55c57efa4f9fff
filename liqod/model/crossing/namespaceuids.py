"""UIDs of the consumer's namespaces that its NamespaceMap names.

They travel as JSON in an annotation of the map at the provider, by the namespace's name at the
consumer: a namespace that was deleted and created again under its old name is another one, and gets
nothing that the first one had at the provider. Liqo sends none. Pure.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST: Final = 131072
"""Bytes of the annotation: half of what all annotations of an object may have together."""


def render(uids: Mapping[str, str]) -> str:
    """The annotation, in the order of the names; those that do not fit any more are left out.

    Args:
        uids: by name at the consumer.
    """
    told: dict[str, str] = {}
    size = len("{}")
    for name, uid in sorted(uids.items()):
        size += len(msgspec.json.encode({name: uid}))
        if size > LONGEST:
            break
        told[name] = uid
    return msgspec.json.encode(told).decode()


def parse(text: str | None) -> dict[str, str]:
    """The UIDs by name at the consumer; none where the annotation is missing or nonsense."""
    if not text or len(text) > LONGEST:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
