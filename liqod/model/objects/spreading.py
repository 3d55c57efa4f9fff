"""Finds workloads whose topology spread constraints a virtual node would break. Pure.

A scheduler counts the nodes of each domain whatever their taints (``nodeTaintsPolicy: Ignore`` is
the default, KEP-3094). So a virtual node is a domain without pods, also for pods that may not run
there: with ``DoNotSchedule`` they wait here once the other domains are ``maxSkew`` ahead of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from liqod.model.objects.scheduling import tolerates
from liqod.model.view.figures import listed

Json = Mapping[str, Any]
MOST_NAMED: Final = 3
"""Workloads that a warning names."""


def broken_keys(template: Json, node_labels: Mapping[str, str]) -> Iterator[str]:
    """The topology keys by which pods of a template count a virtual node and may not run there.

    Required node affinity is taken for one that leaves the node out: it mostly names nodes.

    Args:
        template: of the pods.
        node_labels: labels of the virtual node.
    """
    spec = template.get("spec") or {}
    selector = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    elsewhere = any(node_labels.get(key) != value for key, value in selector.items())
    chosen = elsewhere or bool(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    if tolerates(spec.get("tolerations") or ()):
        return
    for each in spec.get("topologySpreadConstraints") or ():
        counts = each.get("nodeTaintsPolicy", "Ignore") == "Ignore"
        left_out = chosen and each.get("nodeAffinityPolicy", "Honor") == "Honor"
        key: str = each.get("topologyKey", "")
        if each.get("whenUnsatisfiable") != "DoNotSchedule" or not counts or left_out:
            continue
        if key in node_labels:
            yield key


def warning(
    node: str, node_labels: Mapping[str, str], workloads: Iterable[tuple[str, Json]]
) -> str:
    """The warning about workloads that a virtual node would hurt; empty for none.

    Args:
        node: its name.
        node_labels: its labels.
        workloads: the kind of each, and the workload.
    """
    named = _named(node_labels, workloads)
    if not named:
        return ""
    return (
        f"the node {node} counts for the spread of {named}, whose pods may not run there: "
        "new ones may wait, unless their constraints have nodeTaintsPolicy: Honor"
    )


def held_back(
    node: str,
    node_labels: Mapping[str, str],
    held: tuple[str, str],
    workloads: Iterable[tuple[str, Json]],
) -> str:
    """The word that a virtual node does not show its zone or region, as pods here would wait
    because of it.

    Args:
        node, node_labels, workloads: as of :func:`warning`.
        held: key and value of the label that it does not show.
    """
    key, value = held
    named = _named({**node_labels, key: value}, workloads, key)
    whose, what = f"those of {named}" if named else "pods here", key.rpartition("/")[2]
    return (
        f"the node {node} does not show its {what} {value}: {whose} may not run there, are spread "
        f"by {what} and would wait; it is shown once their constraints have nodeTaintsPolicy: Honor"
    )


def _named(
    node_labels: Mapping[str, str], workloads: Iterable[tuple[str, Json]], only: str = ""
) -> str:
    """The workloads that a virtual node would hurt, a few by name; empty for none.

    Args:
        only: the topology key that counts; empty for all.
    """
    found = []
    for kind, each in workloads:
        keys = broken_keys((each.get("spec") or {}).get("template") or {}, node_labels)
        key = next((key for key in keys if only in ("", key)), "")
        if key:
            meta = each["metadata"]
            found.append(f"{kind} {meta.get('namespace', '')}/{meta['name']} ({key})")
    return listed(sorted(found), MOST_NAMED)
