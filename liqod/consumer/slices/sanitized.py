"""Reduces a provider's grant to the parts that are trusted. Pure.

A provider writes the status of a slice: quantities and labels of a Node in this cluster. Labels
that this cluster's own components and policies go by are not a provider's to set, and a quantity
that is none, or absurd, would make the Node one that the API server refuses.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.crossing.keys import key_allowed
from liqod.model.objects import quantities

MOST_ENTRIES: Final = 64
"""Labels, and resources, of one slice that are read."""
MOST: Final = 10**15 * quantities.NANO
"""The largest quantity that is believed: a petabyte, or as many of anything else."""
TOPOLOGY: Final = ("topology.kubernetes.io/", "node.kubernetes.io/instance-type")
PLATFORM: Final = (labels.OS, labels.ARCH)
_OWN_DOMAINS: Final = ("kubernetes.io", "k8s.io", "liqo.io", "liqod.io")
_NAME = re.compile(r"(?:(?P<domain>[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)/)?(?P<name>.{1,63})")
_PLAIN = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def node_labels(found: Mapping[str, str], believed: Collection[str] = ()) -> dict[str, str]:
    """The labels of a provider that its Node here may have.

    By its labels a cluster selector chooses a provider, and Secrets go there: what a provider says
    of itself would let it choose itself. So none counts but those of the platform, which pods
    cannot do without, and those whose keys this cluster's operator believes. Of Kubernetes' own
    only those of the topology can be believed: by others this cluster's scheduler and policies
    tell its nodes apart (``node-role``, ``node-restriction``).

    Args:
        found: what the provider says.
        believed: patterns of keys (:mod:`liqod.model.crossing.keys`).
    """
    return (
        {
            key: value
            for key, value in sorted(found.items())
            if _is_label(key, value) and (key in PLATFORM or key_allowed(key, believed))
        }
        if len(found) <= MOST_ENTRIES
        else {}
    )


def amounts(found: Mapping[str, int | str]) -> dict[str, int | str]:
    """The quantities of a provider that a Node can show; what is none is left out."""
    believed: dict[str, int | str] = {}
    for name, value in sorted(found.items())[:MOST_ENTRIES]:
        try:
            amount = quantities.parse(value)
        except ConfigError:
            continue
        if _is_name(name) and amount >= 0:
            believed[name] = value if amount <= MOST else quantities.render(MOST)
    return believed


def _is_label(key: str, value: str) -> bool:
    if not _is_name(key) or len(value) > 63 or (value and not _PLAIN.fullmatch(value)):
        return False
    domain = key.rpartition("/")[0]
    own = any(domain == each or domain.endswith(f".{each}") for each in _OWN_DOMAINS)
    return not own or key in PLATFORM or key.startswith(TOPOLOGY)


def _is_name(key: str) -> bool:
    match = _NAME.fullmatch(key)
    return match is not None and _PLAIN.fullmatch(match["name"]) is not None
