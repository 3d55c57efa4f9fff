"""JSON merge patches (RFC 7386): what turns one JSON value into another, and nothing more."""

from collections.abc import Mapping
from typing import Any


def merge_patch(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest patch that makes ``live`` equal to ``wanted``; empty if it is so already.

    A key that is no longer wanted is patched to null; lists are replaced as a whole. A null inside
    ``wanted`` cannot be expressed and means the same as an absent key.
    """
    patch: dict[str, Any] = {key: None for key in live if wanted.get(key) is None}
    patch = {key: value for key, value in patch.items() if live[key] is not None}
    for key, value in wanted.items():
        if value is None:
            continue
        before = live.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def merged(live: Any, patch: Any) -> Any:
    """What an API server makes of ``live`` with that patch (RFC 7386, section 2)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(live) if isinstance(live, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
