"""Eligibility of a pod of an offloaded namespace: the peers that can have it, and why not others.

Pure. :func:`decide` makes one value for a pod and the placement of its namespace. The webhook makes
its patch of that value (:mod:`liqod.model.objects.scheduling`), and ``liqod explain`` shows it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.model.crossing import fields, guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.model.crossing.overrides import Override, overridden
from liqod.model.objects import podspec, returnmarks, volumeclaims
from liqod.model.objects.nodefilters import tolerated
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.objects.selectors import Json
from liqod.model.objects.volumeclaims import ClaimView
from liqod.model.peering import sizelabels

Strategy = Literal["Local", "Remote", "LocalAndRemote"]

TAINT: Final[Mapping[str, str]] = {
    "key": labels.VIRTUAL_NODE_TAINT,
    "value": "true",
    "effect": "NoExecute",
}
"""The taint of every virtual node."""
CLAIM_MISSING = "ClaimMissing"
"""Reason of a pod that names a claim which does not exist (yet)."""
NOT_LENT = "NotLent"
"""Reason of a pod that every provider would refuse."""
HOME_FIRST = "HomeFirst"
"""Reason of a pod that waits for a place in this cluster before it may go to a peer."""
RETURNED = "Returned"
"""Reason of a pod that avoids a provider, which could not start others of its controller lately."""


_COMMON = frozenset({labels.TYPE, labels.OS, labels.ARCH, labels.STORAGE_AVAILABLE})
"""Labels by which pods choose that keep none at one place, beside those of sizes."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Providers(msgspec.Struct, frozen=True):
    """The words of providers that matter when a pod is made.

    Attributes:
        rules: the restrictions that they declare for guests, by their ids.
        room_told: whether any tells what is free.
    """

    rules: dict[str, Rules | None] = {}
    room_told: bool = False


NO_PROVIDERS: Final = Providers()


class Placement(msgspec.Struct, frozen=True):
    """The placement that a NamespaceOffloading sets for its pods.

    Attributes:
        strategy: where pods may run.
        terms: node selector terms of the cluster selector; none selects every cluster.
        providers: the rules of all providers by their ids, None for one that publishes none.
        storage_class: the virtual StorageClass, whose claims follow pods; empty where none do.
        claims: those that the pod names, as far as they exist.
        overrides: the policies that change its pods on their way, in the order of their use.
        returned: the controllers whose pods a provider could not start.
        mapped: the peers that have the namespace, by their ids; None: all are taken to have it.
        room_told: whether any provider tells what is free, so that virtual nodes have labels of the
            sizes that have a place there.
        home_first: seconds for which its pods wait for a place in this cluster first; 0 for none.
    """

    strategy: Strategy = "LocalAndRemote"
    terms: tuple[Json, ...] = ()
    providers: Mapping[str, Rules | None] = {}
    storage_class: str = ""
    claims: Mapping[str, ClaimView] = {}
    overrides: tuple[Override, ...] = ()
    returned: tuple[ReturnMark, ...] = ()
    mapped: frozenset[str] | None = None
    room_told: bool = False
    home_first: int = 0


class SchedulingVerdict(msgspec.Struct, frozen=True):
    """The reason why a pod stays, in camel case, and a sentence for people."""

    reason: str
    message: str


class Eligibility(msgspec.Struct, frozen=True):
    """The decision about one pod, with its reasons.

    Attributes:
        unplaced: why liqod does not place the pod at all; None where it does.
        obstacle: the first thing that it uses and that can follow it to no peer; None for nothing.
        refused: the providers that would never take it, by their ids, and why.
        avoided: those that could not start pods of its controller lately, and why.
        everywhere: whether there are providers, and none is left besides those that has the
            namespace.
        needs_storage: whether a volume may be provisioned where it lands.
    """

    unplaced: SchedulingVerdict | None = None
    obstacle: SchedulingVerdict | None = None
    refused: Mapping[str, str] = {}
    avoided: Mapping[str, str] = {}
    everywhere: bool = False
    needs_storage: bool = False

    @property
    def stays(self) -> SchedulingVerdict | None:
        """The reason against every peer: a part of the pod cannot follow, or none accepts it."""
        if self.obstacle is not None or not self.everywhere:
            return self.obstacle
        if self.avoided.keys() - self.refused.keys():
            return SchedulingVerdict(RETURNED, "; ".join(self.avoided.values()))
        why = next(iter(self.refused.values()))
        return SchedulingVerdict(NOT_LENT, f"{why}, which no provider takes")

    @property
    def excluded(self) -> Mapping[str, str]:
        """The providers that the pod is not sent to, by their ids, and why."""
        return {**self.avoided, **self.refused}

    def against(self, provider: str) -> SchedulingVerdict | None:
        """The reason against one provider, given by its id; None where it may have the pod."""
        if self.obstacle is not None or provider not in self.excluded:
            return self.obstacle
        if provider in self.refused:
            return SchedulingVerdict(NOT_LENT, self.refused[provider])
        return SchedulingVerdict(RETURNED, self.avoided[provider])


def decide(pod: Json, placement: Placement) -> Eligibility:
    """The decision about a pod: everything about it that is asked more than once."""
    refused = _refusing(pod, placement)
    known = placement.providers.keys()
    avoided = _avoided(pod, placement, known - refused.keys())
    left = known - refused.keys() - avoided.keys()
    if placement.mapped is not None and (avoided.keys() - refused.keys()) & known:
        left &= placement.mapped
    return Eligibility(
        unplaced=_unplaced(pod),
        obstacle=obstacle(pod, placement),
        refused=refused,
        avoided=avoided,
        everywhere=bool(known) and not left,
        needs_storage=_needs_storage(pod, placement),
    )


def _avoided(pod: Json, placement: Placement, takers: Collection[str]) -> dict[str, str]:
    """The providers that a pod avoids for a while by the marks of its controller, and why.

    None where it has no other place: an affinity is never taken back, and would keep it away for
    good.
    """
    found = returnmarks.avoided(pod, placement.returned)
    claims = (placement.claims.get(name) for name in volumeclaims.names(pod))
    bound = any(each is not None and each.bound for each in claims)
    if not found or bound or is_fixed(pod, placement.terms):
        return {}
    others = set(takers) - found.keys()
    if placement.mapped is not None:
        others &= placement.mapped
    alone = placement.strategy == "Remote" and not others
    return {} if alone and tolerated(pod.get("spec", {}), dict(TAINT)) else found


def is_fixed(pod: Json, terms: Sequence[Json]) -> bool:
    """True if a pod chooses nodes itself, so that it may have no other place than one peer.

    Args:
        terms: of the cluster selector of its namespace, whose labels do not count.
    """
    chosen = (each.get("key") for term in terms for each in term.get("matchExpressions") or ())
    known = (_COMMON | set(chosen)) - {labels.REMOTE_CLUSTER_ID}
    spec = pod.get("spec", {})
    if not known.issuperset(spec.get("nodeSelector") or {}):
        return True
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    asked = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return bool(asked) and all(
        term.get("matchFields")
        or any(_chooses(each, known) for each in term.get("matchExpressions") or ())
        for term in asked
    )


def _chooses(expression: Json, known: Collection[str]) -> bool:
    key, operator = expression.get("key"), expression.get("operator")
    if key in known or sizelabels.is_size(str(key)) or operator in ("NotIn", "DoesNotExist"):
        return False
    if key == labels.REMOTE_CLUSTER_ID:
        return operator == "In" and len(expression.get("values") or ()) < 2
    return True


def _unplaced(pod: Json) -> SchedulingVerdict | None:
    """The reason why liqod does not place a pod."""
    owner = daemon_set(pod)
    if owner is not None:
        return SchedulingVerdict("DaemonSetPod", f"DaemonSet {owner} has a pod on each node")
    if pod.get("spec", {}).get("runtimeClassName") == labels.RUNTIME_CLASS:
        text = f"the RuntimeClass {labels.RUNTIME_CLASS} says where it runs"
        return SchedulingVerdict("RuntimeClass", text)
    if "kubernetes.io/config.mirror" in (pod.get("metadata", {}).get("annotations") or {}):
        return SchedulingVerdict("MirrorPod", "a kubelet runs it by a file of its node")
    return None


def daemon_set(pod: Json) -> str | None:
    """The name of the DaemonSet that a pod belongs to, or None."""
    for owner in pod.get("metadata", {}).get("ownerReferences") or []:
        if owner.get("kind") == "DaemonSet" and str(owner.get("apiVersion", "")).startswith(
            "apps/"
        ):
            return str(owner.get("name", ""))
    return None


def selects_virtual_nodes(pod: Json) -> bool:
    """True if a pod names virtual nodes itself: by its node selector, or in each alternative of its
    node affinity."""
    spec = pod.get("spec", {})
    named = spec.get("nodeSelector") or {}
    if labels.REMOTE_CLUSTER_ID in named or named.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return True
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return bool(terms) and all(
        any(map(_names_virtual, term.get("matchExpressions") or ())) for term in terms
    )


def _names_virtual(expression: Json) -> bool:
    key, operator = expression.get("key"), expression.get("operator")
    if key not in (labels.TYPE, labels.REMOTE_CLUSTER_ID) or operator not in ("In", "Exists"):
        return False
    asked = expression.get("values") or [labels.VIRTUAL_NODE_TYPE]
    return key == labels.REMOTE_CLUSTER_ID or asked == [labels.VIRTUAL_NODE_TYPE]


def daemon_verdict(pod: Json) -> SchedulingVerdict | None:
    """The reason why a DaemonSet's pod on a virtual node waits, and the remedy; or None.

    One that names virtual nodes is wanted at them: it runs once at each.
    """
    owner = daemon_set(pod)
    if owner is None or selects_virtual_nodes(pod):
        return None
    return SchedulingVerdict(
        "DaemonSetPod",
        f"DaemonSet {owner} tolerates every taint, so this pod of its was bound to a virtual node, "
        f"where it does not run; give it a node affinity with {labels.TYPE} NotIn "
        f"[{labels.VIRTUAL_NODE_TYPE}], or In, if it is meant for peers",
    )


def obstacle(pod: Json, placement: Placement | None = None) -> SchedulingVerdict | None:
    """The first thing that a pod uses and that cannot follow it to a peer, as a verdict; or None.

    Args:
        placement: which claims follow it; None: its volumes have been judged before.
    """
    spec = pod.get("spec", {})
    volumes = spec.get("volumes") or []
    if placement is not None:
        judged = (_volume_obstacle(each, placement) for each in volumes)
        found = next((each for each in judged if each is not None), None)
        if found is not None:
            return found
    blocked = fields.pod_obstacle(spec)
    if blocked is not None:
        name, why = blocked
        reason = "ResourceClaim" if name == "resourceClaims" else "UnsupportedField"
        return SchedulingVerdict(reason, f"the pod has the field {name}: {why}")
    return None


def _volume_obstacle(volume: Json, placement: Placement) -> SchedulingVerdict | None:
    """The reason why a volume keeps its pod: it is in this cluster already, or has no provider."""
    name, only = volume.get("name"), placement.storage_class
    follow = f"only those of the class {only} follow pods" if only else "claims follow no pod here"
    if "ephemeral" in volume:
        template = ((volume["ephemeral"] or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
        of = template.get("storageClassName") or ""
        if only and of == only:
            return None
        return SchedulingVerdict(
            "EphemeralVolume",
            f"volume {name} is an ephemeral volume of the class {of or 'default'}, and {follow}",
        )
    if "persistentVolumeClaim" not in volume:
        return None
    claim = (volume["persistentVolumeClaim"] or {}).get("claimName", "")
    known = placement.claims.get(claim)
    text = f"volume {name} is the PersistentVolumeClaim {claim}"
    if not only:
        return SchedulingVerdict("PersistentVolumeClaim", f"{text}, and {follow}")
    if known is None:
        return SchedulingVerdict(CLAIM_MISSING, f"{text}, which is not there yet")
    if known.storage_class == only:
        return None
    of = known.storage_class or "none"
    return SchedulingVerdict("PersistentVolumeClaim", f"{text} of the class {of}, and {follow}")


def _needs_storage(pod: Json, placement: Placement) -> bool:
    """True if a volume may be provisioned where a pod lands, which not every peer can do."""
    if not placement.storage_class or placement.strategy == "Local":
        return False
    for volume in pod.get("spec", {}).get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            claim = (volume["persistentVolumeClaim"] or {}).get("claimName", "")
            known = placement.claims.get(claim)
            if known is None or (
                known.storage_class == placement.storage_class and not known.bound
            ):
                return True
        elif "ephemeral" in volume and _volume_obstacle(volume, placement) is None:
            return True
    return False


def _refusing(pod: Json, placement: Placement) -> dict[str, str]:
    """The providers that would never take a pod, by their ids, and why.

    Each judges it as it would be there, with what the policies change on the way.
    """
    there = {
        **pod.get("spec", {}),
        "serviceAccountName": podspec.remote_account(pod),
        "runtimeClassName": podspec.remote_runtime_class(pod, {}),
    }
    if not placement.overrides:
        return guestrules.problems(there, placement.providers)
    refused: dict[str, str] = {}
    for peer, rules in placement.providers.items():
        changed = changed_there({**pod, "spec": there}, placement.overrides, peer)
        refused |= guestrules.problems(changed["spec"], {peer: rules})
    return refused


def home_first(pod: Json, placement: Placement) -> SchedulingVerdict | None:
    """The reason why a pod is not sent to peers yet; None where it may go at once, as one does that
    names virtual nodes itself."""
    if not placement.home_first or placement.strategy != "LocalAndRemote":
        return None
    if selects_virtual_nodes(pod):
        return None
    text = (
        f"it waits {placement.home_first} s for a place in this cluster, and may go to a peer then"
    )
    return SchedulingVerdict(HOME_FIRST, text)


def changed_there(pod: Json, overrides: Sequence[Override], peer: str) -> Json:
    """A pod as policies change it on its way to a peer, given by its id."""
    named = pod if "name" in pod.get("metadata", {}) else {**pod, "metadata": _named(pod)}
    mine = [each for each in overrides if each.concerns(PODS, named, peer)]
    return overridden(named, "", mine)[0] if mine else pod


def _named(pod: Json) -> Json:
    """The metadata of a pod that its controller has named by a prefix only."""
    meta = pod.get("metadata", {})
    return {**meta, "name": meta.get("generateName", "")}
