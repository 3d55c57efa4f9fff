"""Reasons for namespaces that a provider does not make, in an annotation beside the map's status.

The reasons travel as JSON in an annotation of the NamespaceMap, by the namespace's name at the
consumer. Pure.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST: Final = 16384
"""Bytes of an annotation that is read."""
MOST: Final = 50
"""Namespaces whose reasons are reported; the others are no different."""
TEXT: Final = 200
"""Characters of a reason."""


def render(reasons: Mapping[str, str]) -> str | None:
    """The annotation; None where nothing is refused."""
    told = {name: reasons[name][:TEXT] for name in sorted(reasons)[:MOST] if reasons[name]}
    return msgspec.json.encode(told).decode() if told else None


def parse(text: str | None) -> dict[str, str]:
    """The reasons by namespace; none where the annotation is nonsense."""
    if not text or len(text) > LONGEST:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
    return {name: reason[:TEXT] for name, reason in found.items()}
