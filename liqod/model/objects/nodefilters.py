"""The filters of Kubernetes' scheduler that decide about virtual nodes, with their evidence. Pure.

Each is a function of a pod and a node. Those that compare a pod with other pods, and with volumes,
are in :mod:`liqod.model.objects.companions`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.objects.selectors import Json, term_matches
from liqod.model.peering.quota import PODS, pod_cost

CORDONED: Final[Json] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint that a cordoned node is taken to have."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_DENYING: Final = ("NoSchedule", "NoExecute")
_STAYING: Final = ("Succeeded", "Failed")


class NodeFacts(msgspec.Struct, frozen=True):
    """A node as the scheduler sees it.

    Attributes:
        name, labels, taints, unschedulable: of the Node.
        allocatable: in billionths.
        used: the requests of the pods on it, in billionths.
        features: that it declares (KEP-5328).
    """

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Json, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = {}
    used: Mapping[str, int] = {}
    features: frozenset[str] = frozenset()


class NodeRefusal(msgspec.Struct, frozen=True):
    """The reason against a node: a word, the evidence for it, and what would have to change."""

    reason: str
    message: str
    remedy: str = ""


def facts(node: Json, pods: Iterable[Mapping[str, Any]] = ()) -> NodeFacts:
    """The facts of a Node, and of the pods on it.

    Raises:
        ConfigError: one of their quantities is none.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return NodeFacts(
        node["metadata"]["name"],
        node["metadata"].get("labels") or {},
        tuple(spec.get("taints") or ()),
        bool(spec.get("unschedulable")),
        quantities.parse_all(status.get("allocatable") or status.get("capacity")),
        used_by(pods),
        frozenset(status.get("declaredFeatures") or ()),
    )


def used_by(pods: Iterable[Mapping[str, Any]]) -> Amounts:
    """The requests of the pods that have not ended."""
    return quantities.total(
        pod_cost(each["spec"])
        for each in pods
        if (each.get("status") or {}).get("phase") not in _STAYING
    )


def filtered(pod: Json, node: NodeFacts) -> list[NodeRefusal]:
    """All reasons of the scheduler's against a node; none where the pod may go there.

    Raises:
        ConfigError: a request of the pod is no quantity.
    """
    spec = pod.get("spec") or {}
    found = (cordoned(spec, node), *tainted(spec, node), unselected(spec, node))
    rest = (*undeclared(spec, node), *short(spec, node))
    return [*(each for each in found if each is not None), *rest]


def undeclared(spec: Json, node: NodeFacts) -> Iterable[NodeRefusal]:
    """The reasons against a node without a feature that the pod needs it to declare.

    A kubelet that does not know a field would start the pod without it. For a change of a running
    pod this is asked when it is changed.
    """
    for feature, field in _needed(spec):
        if feature not in node.features:
            text = f"the pod needs the feature {feature} by {field}, and the node declares none"
            yield NodeRefusal("FeatureNotDeclared", text, f"leave {field} out of the pod")


def _needed(spec: Json) -> Iterable[tuple[str, str]]:
    """The features that a node has to declare for a pod, and the field of it that needs each."""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = [rule for each in containers for rule in each.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits", "the action RestartAllContainers"
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport", "hostUsers: false beside hostNetwork"


def cordoned(spec: Json, node: NodeFacts) -> NodeRefusal | None:
    """The reason against a node that is closed for new pods."""
    if not node.unschedulable or tolerated(spec, CORDONED):
        return None
    return NodeRefusal("Cordoned", "the node is cordoned", f"kubectl uncordon {node.name}")


def tainted(spec: Json, node: NodeFacts) -> Iterable[NodeRefusal]:
    """The reasons against a node by its taints."""
    for taint in node.taints:
        if taint.get("effect") in _DENYING and not tolerated(spec, taint):
            value = taint.get("value") or ""
            text = f"{taint['key']}{'=' if value else ''}{value}:{taint['effect']}"
            remedy = f"remove the taint, or have the pod tolerate {taint['key']}"
            yield NodeRefusal("Taint", f"the pod does not tolerate {text}", remedy)


def tolerated(spec: Json, taint: Json) -> bool:
    """True if one of a pod's tolerations covers a taint, for however long."""
    return any(_covers(each, taint) for each in spec.get("tolerations") or ())


def _covers(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return key in ("", taint["key"])
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(key == taint["key"]) and same


def unselected(spec: Json, node: NodeFacts) -> NodeRefusal | None:
    """The reason against a node that the pod's node selector or its node affinity leaves out."""
    wanted: Mapping[str, str] = spec.get("nodeSelector") or {}
    for key, value in sorted(wanted.items()):
        if node.labels.get(key) != value:
            has = node.labels.get(key)
            text = f"the node selector wants {key}={value}, and the node has {_shown(key, has)}"
            return NodeRefusal("NodeSelector", text, "change the pod's node selector")
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    terms = (required or {}).get("nodeSelectorTerms") or ()
    if required is None or any(term_matches(each, node.name, node.labels) for each in terms):
        return None
    keys = {str(one.get("key")) for each in terms for one in (each.get("matchExpressions") or ())}
    has = ", ".join(_shown(key, node.labels.get(key)) for key in sorted(keys))
    text = (
        f"no alternative of the node affinity holds: the node has {has or 'no label that counts'}"
    )
    return NodeRefusal("NodeAffinity", text, "change the pod's node affinity")


def _shown(key: str, value: str | None) -> str:
    return f"no label {key}" if value is None else f"{key}={value}"


def short(spec: Json, node: NodeFacts) -> Iterable[NodeRefusal]:
    """The reasons against a node that has not enough left, by resource."""
    for name, amount in sorted(pod_cost(spec).items()):
        has, used = node.allocatable.get(name, 0), node.used.get(name, 0)
        if not amount or used + amount <= has:
            continue
        if name == PODS:
            text = f"{_amount(name, used)} of {_amount(name, has)} pods are there"
            yield NodeRefusal("TooManyPods", text, "end pods there, or ask for more")
            continue
        text = (
            f"{name}: {_amount(name, amount)} asked, {_amount(name, max(has - used, 0))} left "
            f"({_amount(name, has)} less {_amount(name, used)} of the pods there)"
        )
        yield NodeRefusal("Insufficient", text, f"ask for less {name}, or free some there")


def _amount(name: str, amount: int) -> str:
    return quantities.render_all({name: amount})[name]
