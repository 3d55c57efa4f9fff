"""The condition DisruptionTarget, which says of a pod why it is about to be deleted."""

from typing import Any

from liqod.kube import times
from simulator import builtins
from simulator.storage.registry import Registry
from simulator.storage.storage import Item

TYPE = "DisruptionTarget"


def mark(registry: Registry, item: Item, reason: str, message: str) -> Item:
    """Say of a pod why it goes; the pod as it is then."""
    pod: dict[str, Any] = item.decode()
    status = pod.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each["type"] != TYPE]
    condition = {
        "type": TYPE,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": times.now(),
        "reason": reason,
        "message": message,
    }
    status["conditions"] = [*others, condition]
    return registry.update(builtins.PODS, item, pod, subresource="status")
