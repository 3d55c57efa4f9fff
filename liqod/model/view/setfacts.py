"""The ids of this cluster and of its set, as ClusterProperties have them (KEP-2149)."""

from collections.abc import Iterable
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.resources.about import CLUSTER, CLUSTER_SET


class Property(msgspec.Struct, frozen=True):
    """One of the two properties with a well-known name.

    Attributes:
        value: the text.
        ours: an installation of liqod has made it.
    """

    value: str
    ours: bool


class SetFacts(msgspec.Struct, frozen=True):
    """Both properties; None for one that is not there.

    Attributes:
        own: this cluster's id.
        cluster: the one with the cluster's id.
        clusterset: the one with the id of the set.
    """

    own: str
    cluster: Property | None = None
    clusterset: Property | None = None


def set_facts(own: str, found: Iterable[dict[str, Any]]) -> SetFacts:
    """The facts by the properties that there are.

    Args:
        own: this cluster's id.
        found: all of the cluster's, which other programs have written, too.
    """
    by_name = {
        each["metadata"]["name"]: Property(
            str((each.get("spec") or {}).get("value", "")),
            labels.MANAGED_BY_LIQOD in (each["metadata"].get("labels") or {}),
        )
        for each in found
    }
    return SetFacts(own, by_name.get(CLUSTER), by_name.get(CLUSTER_SET))
