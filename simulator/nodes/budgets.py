"""PodDisruptionBudgets: what they allow now, and refusing evictions that they do not allow."""

import math
from typing import Any

from simulator import builtins
from simulator.storage.selectors import labels_of, to_selector
from simulator.storage.storage import Item, Storage
from simulator.wire.failures import ApiError

Json = dict[str, Any]

_TERMINAL = ("Succeeded", "Failed")


def is_ready(pod: Json) -> bool:
    """True if a pod's Ready condition is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def check_eviction(storage: Storage, pod: Item) -> None:
    """Raise ApiError 429 if a budget of this pod allows no disruption."""
    obj = pod.decode()
    phase = (obj.get("status") or {}).get("phase")
    if phase in (*_TERMINAL, "Pending") or obj["metadata"].get("deletionTimestamp"):
        return
    labels = labels_of(pod)
    for item in storage.of(builtins.BUDGETS.qualified).items(pod.namespace):
        budget = item.decode()
        selector = (budget.get("spec") or {}).get("selector")
        if selector is None or not to_selector(selector).holds(labels):
            continue
        status = status_of(storage, budget, pod.namespace)
        healthy = status["currentHealthy"]
        spared = is_ready(obj) or healthy < status["desiredHealthy"]
        if status["disruptionsAllowed"] > 0 or not spared:
            continue
        message = (
            f"The disruption budget {item.name} needs {status['desiredHealthy']} healthy pods and"
            f" has {healthy} currently"
        )
        raise ApiError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
        )


def status_of(storage: Storage, budget: Json, namespace: str) -> Json:
    """The status of a budget, counted from the pods there are."""
    spec = budget.get("spec") or {}
    selector = to_selector(spec.get("selector"))
    pods = [
        item.decode()
        for item in storage.of(builtins.PODS.qualified).items(namespace)
        if spec.get("selector") is not None and selector.holds(labels_of(item))
    ]
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _TERMINAL]
    healthy = [
        pod for pod in living if is_ready(pod) and not pod["metadata"].get("deletionTimestamp")
    ]
    expected = len(living)
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - _scaled(spec["maxUnavailable"], expected))
    else:
        desired = _scaled(spec.get("minAvailable", 1), expected)
    return {
        "currentHealthy": len(healthy),
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, len(healthy) - desired),
        "expectedPods": expected,
    }


def _scaled(amount: int | str, whole: int) -> int:
    """A number, or a percentage of the whole rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return math.ceil(whole * int(amount[:-1]) / 100)
    return int(amount)
