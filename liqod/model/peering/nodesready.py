"""Readiness of a provider's nodes as it reports them to consumers: some, or none, are Ready.

It is an annotation of the slices that it grants, which comes back with their status, and goes on to
their virtual nodes. Nothing is reported while all are Ready, nor by Liqo; the number of nodes is
never reported. Pure.
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
    """The state to report of nodes, by the readiness of each; empty where all are Ready."""
    if all(ready):
        return ""
    return SOME if any(ready) else NONE


def reported(annotations: Mapping[str, str]) -> str:
    """The state that a provider reports; empty for none, or an unknown one."""
    found = annotations.get(labels.NODES_READY, "")
    return found if found in _TEXTS else ""


def text(found: str) -> str:
    """A reported state as a sentence."""
    return _TEXTS.get(found, "")
