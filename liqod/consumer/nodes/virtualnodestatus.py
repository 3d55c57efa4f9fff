"""The conditions of a VirtualNode's own status: the states of its virtual kubelet and its Node.

Pure. The Node itself is planned in :mod:`liqod.consumer.nodes.nodeplan`.
"""

from collections.abc import Sequence
from typing import Any

from liqod.apimachinery import labels
from liqod.model.objects import conditions
from liqod.resources.nodes import DRAINING, VirtualNode

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
    """Reason and message of a Node that stands for a whole peer where a part each was asked for;
    empty of others."""
    asked = node.metadata.annotations.get(labels.VIRTUAL_NODES)
    if not asked or labels.PART in node.metadata.labels:
        return {}
    message = f"the slice asks for {asked}, and its provider tells of none: one node is made"
    return {"reason": "NotTold", "message": message}


def draining_since(current: Sequence[Json]) -> str:
    """The start of the drain by the conditions of a VirtualNode; empty without one."""
    found = conditions.find(current, "Node") or {}
    return str(found.get(conditions.SINCE) or "") if found.get("status") == DRAINING else ""
