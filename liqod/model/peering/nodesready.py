"""Readiness of a provider's nodes as it reports them to consumers: some, or none, are Ready; or all
that are Ready are cordoned.

Both are annotations of the slices that it grants, which come back with their status, and go on to
their virtual nodes. Nothing is reported while all are Ready and one takes pods, nor by Liqo; the
number of nodes is never reported. Pure.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from liqod.apimachinery import labels

SOME: Final = "some"
NONE: Final = "none"
_TEXTS: Final = {
    SOME: "not all nodes of the peer's are Ready: what runs on the others may not answer",
    NONE: "no node of the peer's is Ready: nothing that runs there may answer",
}
CORDONED: Final = "every Ready node of the peer's is cordoned: no new pod starts there"


LONGEST_STATUS: Final = 1 << 18
"""Characters of an autoscaler's status that are read: some 500 node groups."""
_SIZES: Final = re.compile(r"\b(cloudProviderTarget|maxSize)[:=] *(\d{1,9})\b")


def word(ready: Collection[bool]) -> str:
    """The state to report of nodes, by the readiness of each; empty where all are Ready."""
    if all(ready):
        return ""
    return SOME if any(ready) else NONE


def all_cordoned(schedulable: Collection[bool]) -> bool:
    """True if no Ready node takes pods, by whether each does; False where none is Ready."""
    return bool(schedulable) and not any(schedulable)


def is_scaled(marks: Mapping[str, str]) -> bool:
    """True if an autoscaler that marks its nodes has added a node, by the labels of a real one.

    Karpenter does. Nodes of the cluster autoscaler are like others.
    """
    return labels.KARPENTER_POOL in marks


def may_grow(status: str) -> bool:
    """True if any node group may have more nodes, by the status that the cluster autoscaler writes
    into a ConfigMap: as YAML, and before 1.30 as lines of text with the same names."""
    target = None
    for name, number in _SIZES.findall(status[:LONGEST_STATUS]):
        if name != "maxSize":
            target = int(number)
        elif target is not None and target < int(number):
            return True
        else:
            target = None
    return False


def adds_nodes(said: bool | None, *, scaled: bool) -> bool:
    """True if nodes are added for pods that find no place.

    Args:
        said: by the configuration; None for nothing.
        scaled: whether an autoscaler has added any node that is there, or says that it may.
    """
    return scaled if said is None else said


def reported(annotations: Mapping[str, str]) -> str:
    """The state that a provider reports; empty for none, or an unknown one."""
    found = annotations.get(labels.NODES_READY, "")
    return found if found in _TEXTS else ""


def takes_none(annotations: Mapping[str, str]) -> bool:
    """True if no node of a provider takes new pods, by what it reports."""
    return reported(annotations) == NONE or is_cordoned(annotations)


def is_cordoned(annotations: Mapping[str, str]) -> bool:
    """True if a provider reports that its Ready nodes are cordoned."""
    return annotations.get(labels.NODES_CORDONED) == labels.TRUE


def text(found: str) -> str:
    """A reported state as a sentence."""
    return _TEXTS.get(found, "")


def sentence(annotations: Mapping[str, str]) -> str:
    """All that a provider reports of its nodes; empty for nothing."""
    cordoned = CORDONED if is_cordoned(annotations) else ""
    return "; ".join(filter(None, (text(reported(annotations)), cordoned)))
