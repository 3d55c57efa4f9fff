"""Cuts JSON of a peer to the size that an honest peer needs, before it is written. Pure.

A pod's status is copied to this cluster. One of a megabyte, for each of its pods, would fill this
cluster's database by the will of a provider alone.
"""

from typing import Any, Final

import msgspec

ENOUGH: Final = 1 << 15
"""Bytes up to which JSON is taken as it is; the status of a pod of ten containers has a third."""
TEXT: Final = 1024
"""Characters of a text in a larger value; Kubernetes' own bound for messages of conditions."""
ENTRIES: Final = 64
"""Entries of a list or an object in a larger value."""
LEVELS: Final = 12

_encoder = msgspec.json.Encoder()


def fit(value: Any) -> Any:
    """The value itself where it is small, else one with its texts, lists and objects cut."""
    return value if size(value) <= ENOUGH else _cut(value, LEVELS)


def size(value: Any) -> float:
    """Bytes of its JSON; no end where it is nested too deeply to be written."""
    try:
        return len(_encoder.encode(value))
    except RecursionError:
        return float("inf")


def _cut(value: Any, levels: int) -> Any:
    match value:
        case str():
            return value[:TEXT]
        case dict() | list() if not levels:
            return type(value)()
        case dict():
            first = list(value.items())[:ENTRIES]
            return {key[:TEXT]: _cut(inner, levels - 1) for key, inner in first}
        case list():
            return [_cut(inner, levels - 1) for inner in value[:ENTRIES]]
    return value
