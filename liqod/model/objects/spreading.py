"""Finds workloads whose topology spread constraints a virtual node would break. Pure.

A scheduler counts the nodes of each domain whatever their taints (``nodeTaintsPolicy: Ignore`` is
the default, KEP-3094). So a virtual node is a domain without pods, also for pods that may not run
there: with ``DoNotSchedule`` they wait here once the other domains are ``maxSkew`` ahead of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from liqod.model.objects.scheduling import tolerates

Json = Mapping[str, Any]
MOST_NAMED: Final = 3
"""Workloads that a warning names."""


def broken_key(template: Json, node_labels: Mapping[str, str]) -> str:
    """The topology key by which pods of a template count a virtual node; empty for none.

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
        return ""
    for each in spec.get("topologySpreadConstraints") or ():
        counts = each.get("nodeTaintsPolicy", "Ignore") == "Ignore"
        left_out = chosen and each.get("nodeAffinityPolicy", "Honor") == "Honor"
        key: str = each.get("topologyKey", "")
        if each.get("whenUnsatisfiable") != "DoNotSchedule" or not counts or left_out:
            continue
        if key in node_labels:
            return key
    return ""


def warning(
    node: str, node_labels: Mapping[str, str], workloads: Iterable[tuple[str, Json]]
) -> str:
    """The warning about workloads that a virtual node would hurt; empty for none.

    Args:
        node: its name.
        node_labels: its labels.
        workloads: the kind of each, and the workload.
    """
    found = []
    for kind, each in workloads:
        key = broken_key((each.get("spec") or {}).get("template") or {}, node_labels)
        if key:
            meta = each["metadata"]
            found.append(f"{kind} {meta.get('namespace', '')}/{meta['name']} ({key})")
    if not found:
        return ""
    named = ", ".join(sorted(found)[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (
        f"the node {node} counts for the spread of {named}{more}, whose pods may not run there: "
        "new ones may wait, unless their constraints have nodeTaintsPolicy: Honor"
    )
