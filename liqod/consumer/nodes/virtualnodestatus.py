"""The conditions of a VirtualNode's own status: the states of its virtual kubelet and its Node.

Pure. The Node itself is planned in :mod:`liqod.consumer.nodes.nodeplan`.
"""

from collections.abc import Sequence
from typing import Any

from liqod.apimachinery import labels
from liqod.model.objects import conditions
from liqod.model.peering import freecapacity, parts
from liqod.resources.nodes import DRAINING, NOT_TOLD, VirtualNode

Json = dict[str, Any]


def node_conditions(
    current: Sequence[Json],
    kubelet: str,
    node: str,
    now: str,
    *,
    reason: str = "",
    message: str = "",
) -> list[Json] | None:
    """The two conditions of a VirtualNode's status, or None if they are so already.

    Args:
        current: the conditions it has.
        kubelet: status of ``VirtualKubelet``.
        node: status of ``Node``; ``reason`` and ``message`` go with it.
    """
    wanted: list[Json] = [
        {"type": "VirtualKubelet", "status": kubelet},
        {
            "type": "Node",
            "status": node,
            **({"reason": reason} if reason else {}),
            **({"message": message} if message else {}),
        },
    ]
    result = conditions.all_dated(wanted, current, now)
    return None if result == list(current) else result


def instead_of_parts(node: VirtualNode) -> dict[str, str]:
    """Reason and message of a Node that stands for more than was asked for: a whole peer in place
    of groups, or a group in place of nodes; empty of others."""
    asked = node.metadata.annotations.get(labels.VIRTUAL_NODES)
    if not asked:
        return {}
    if labels.PART not in node.metadata.labels:
        message = f"the slice asks for {asked}, and its provider tells of none: one node is made"
        return {"reason": NOT_TOLD, "message": message}
    told = freecapacity.read(node.metadata.annotations.get(labels.FREE_CAPACITY))
    if asked == parts.NODES and told is not None and not any(each.key for each in told.groups):
        message = "the slice asks for nodes, and its provider tells of groups"
        return {"reason": NOT_TOLD, "message": message}
    return {}


def draining_since(current: Sequence[Json]) -> str:
    """The start of the drain by the conditions of a VirtualNode; empty without one."""
    found = conditions.find(current, "Node") or {}
    return str(found.get(conditions.SINCE) or "") if found.get("status") == DRAINING else ""
