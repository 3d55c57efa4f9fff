"""The times since when other clusters export a Service, as they were told first. Pure.

The oldest export wins. A cluster that dates its own back later would take over a Service that
clients use already; so the time that it told first is kept on the ServiceImport.
"""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset.exports import Export


def read(annotations: Mapping[str, str]) -> dict[str, str]:
    """The times by cluster, of the annotations of a ServiceImport."""
    pairs = (each.partition("=") for each in annotations.get(labels.EXPORTED_SINCE, "").split(","))
    return {cluster: created for cluster, _, created in pairs if created}


def render(since: Mapping[str, str]) -> str:
    """The times as an annotation has them."""
    return ",".join(f"{cluster}={created}" for cluster, created in sorted(since.items()))


def not_before(export: Export, since: Mapping[str, str]) -> Export:
    """An export, which is no older than its cluster has told before."""
    created = max(export.created, since.get(export.cluster, ""))
    return msgspec.structs.replace(export, created=created)


def noted(exports: Iterable[Export], since: Mapping[str, str], own: str) -> dict[str, str]:
    """The times to keep; those of exports that have ended stay, while there is an import.

    Args:
        exports: those that count.
        since: the times that are kept already.
        own: this cluster's id, whose exports nobody tells it.
    """
    return {**since, **{each.cluster: each.created for each in exports if each.cluster != own}}
