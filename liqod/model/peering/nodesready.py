"""What a provider tells of its nodes: that some, or none, are Ready; how many it has stays its own.

It is an annotation of the slices that it grants, which comes back with their status, and goes on to
their virtual nodes. Where all is well nothing is said, nor by Liqo. Pure.
"""

from collections.abc import Collection, Mapping
from typing import Final

from liqod.apimachinery import labels

SOME: Final = "some"
NONE: Final = "none"
_TEXTS: Final = {
    SOME: "not all nodes of the peer's are Ready: what runs on the others may not answer",
    NONE: "no node of the peer's is Ready: nothing that runs there may answer",
}


def word(ready: Collection[bool]) -> str:
    """What is to be told of nodes, by whether each is Ready; empty for nothing."""
    if all(ready):
        return ""
    return SOME if any(ready) else NONE


def told(annotations: Mapping[str, str]) -> str:
    """What a provider tells; empty where that is nothing, or no such word."""
    found = annotations.get(labels.NODES_READY, "")
    return found if found in _TEXTS else ""


def text(found: str) -> str:
    """A word as a sentence."""
    return _TEXTS.get(found, "")
