"""Selects the node for a pod by the stock scheduler's filters and scores, in small. Pure.

Filters: node name, unschedulable, taints, node selector and affinity, the declared feature of pods
that restart all containers, required pod (anti-)affinity,
topology spread that forbids, free resources. Scores: preferred node affinity, taints that are only
to be avoided, the share of resources left free, and how many siblings run there already. Not done:
preemption, preferred pod affinity, selectors of namespaces, preferred spread beyond siblings per
node; of volumes only their node affinity counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.objects.selectors import term_matches
from liqod.model.peering.quota import pod_cost
from simulator.storage.selectors import LabelSelector, to_selector

Json = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
UNSCHEDULABLE: Json = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Place(msgspec.Struct, frozen=True):
    """A node, as scheduling sees it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    allocatable: Amounts
    declares: frozenset[str] = frozenset()

    @staticmethod
    def of(node: Json) -> "Place":
        """From a Node."""
        status, spec = node.get("status") or {}, node.get("spec") or {}
        return Place(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            tuple(spec.get("taints") or ()),
            bool(spec.get("unschedulable")),
            quantities.parse_all(status.get("allocatable") or status.get("capacity")),
            frozenset(status.get("declaredFeatures") or ()),
        )


class AntiTerm(msgspec.Struct, frozen=True):
    """A required term of pod affinity or anti-affinity."""

    topology: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...]


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A pod, as scheduling sees it: one to place, or one that is placed."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    owner: str
    cost: Amounts
    spec: Json
    with_: tuple[AntiTerm, ...] = ()
    without: tuple[AntiTerm, ...] = ()
    volumes: tuple[tuple[Json, ...], ...] = ()
    restarts_all: bool = False

    @staticmethod
    def of(pod: Json, volumes: Iterable[Iterable[Json]] = ()) -> "Candidate":
        """From a Pod, and the node selector terms of its volumes."""
        meta, spec = pod["metadata"], pod["spec"]
        owners = [
            each["uid"] for each in meta.get("ownerReferences") or () if each.get("controller")
        ]
        affinity = spec.get("affinity") or {}
        return Candidate(
            meta["namespace"],
            meta["name"],
            meta.get("labels") or {},
            owners[0] if owners else "",
            pod_cost(spec),
            {key: spec[key] for key in _KEPT if spec.get(key)},
            _terms(affinity.get("podAffinity"), meta["namespace"]),
            _terms(affinity.get("podAntiAffinity"), meta["namespace"]),
            tuple(map(tuple, volumes)),
            _restarts_all(spec),
        )


def _restarts_all(spec: Json) -> bool:
    """True if the exit of one container restarts all of them (KEP-5532)."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


_KEPT = ("nodeSelector", "affinity", "tolerations", "nodeName", "topologySpreadConstraints")


def _terms(affinity: Json | None, namespace: str) -> tuple[AntiTerm, ...]:
    return tuple(
        AntiTerm(
            term.get("topologyKey", ""),
            _selector(term),
            tuple(term.get("namespaces") or (namespace,)),
        )
        for term in (affinity or {}).get(_REQUIRED) or ()
    )


def _selector(term: Json) -> LabelSelector | None:
    """The selector of a term; None for one that has none, and so matches no pod."""
    return to_selector(term["labelSelector"]) if term.get("labelSelector") is not None else None


class Load(msgspec.Struct):
    """The pods on a node and the resources that they use."""

    pods: dict[tuple[str, str], Candidate] = {}
    used: Amounts = {}

    def add(self, pod: Candidate) -> None:
        """A pod has come."""
        self.pods[pod.namespace, pod.name] = pod
        self.used = quantities.total([self.used, pod.cost])

    def discard(self, key: tuple[str, str]) -> None:
        """A pod has gone."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            less = {name: -amount for name, amount in pod.cost.items()}
            self.used = quantities.total([self.used, less])


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    """True if one of the tolerations covers a taint."""
    return any(covers(each, taint) for each in tolerations)


def covers(toleration: Json, taint: Json) -> bool:
    """True if a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator", "Equal") == "Exists":
        return key in ("", taint["key"])
    return key == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def obstacle(
    pod: Candidate, place: Place, loads: Mapping[str, Load], places: Mapping[str, Place]
) -> str:
    """The reason why a pod cannot run on a node, in the scheduler's words; "" if it can."""
    spec = pod.spec
    tolerations = spec.get("tolerations") or ()
    if place.unschedulable and not tolerates(tolerations, UNSCHEDULABLE):
        return "node(s) were unschedulable"
    for taint in place.taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not _selected(spec, place):
        return "node(s) didn't match Pod's node affinity/selector"
    if pod.restarts_all and "RestartAllContainersOnContainerExits" not in place.declares:
        return "node declared features check failed"
    for terms in pod.volumes:
        if not any(term_matches(term, place.name, place.labels) for term in terms):
            return "node(s) didn't match PersistentVolume's node affinity"
    short = _short(pod, place, loads.get(place.name))
    if short:
        return short
    return _apart(pod, place, loads, places)


def _selected(spec: Json, place: Place) -> bool:
    wanted = spec.get("nodeSelector") or {}
    if any(place.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    if required is None:
        return True
    return any(
        term_matches(term, place.name, place.labels)
        for term in required.get("nodeSelectorTerms") or ()
    )


def _short(pod: Candidate, place: Place, load: Load | None) -> str:
    used = load.used if load is not None else {}
    for name, amount in pod.cost.items():
        if amount and used.get(name, 0) + amount > place.allocatable.get(name, 0):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def _apart(
    pod: Candidate, place: Place, loads: Mapping[str, Load], places: Mapping[str, Place]
) -> str:
    for term in pod.without:
        if any(_matches(term, other) for other in _near(term, place, loads, places)):
            return "node(s) didn't match pod anti-affinity rules"
    for load in loads.values():
        for other in load.pods.values():
            for term in other.without:
                near = _near(term, place, loads, places) if _matches(term, pod) else ()
                if any(each is other for each in near):
                    return "node(s) didn't satisfy existing pods anti-affinity rules"
    return _together(pod, place, loads, places) or _skewed(pod, place, loads, places)


def _together(
    pod: Candidate, place: Place, loads: Mapping[str, Load], places: Mapping[str, Place]
) -> str:
    """Pod affinity: pods that match all terms, in the domain of each."""
    why = "node(s) didn't match pod affinity rules"

    def fits(other: Candidate) -> bool:
        return all(_matches(term, other) for term in pod.with_)

    if any(term.topology not in place.labels for term in pod.with_):
        return why
    if all(any(map(fits, _near(term, place, loads, places))) for term in pod.with_):
        return ""
    anywhere = any(
        term.topology in places[name].labels and any(map(fits, load.pods.values()))
        for term in pod.with_
        for name, load in loads.items()
        if name in places
    )
    # The first of its kind may start anywhere.
    return why if anywhere or not fits(pod) else ""


def _skewed(
    pod: Candidate, place: Place, loads: Mapping[str, Load], places: Mapping[str, Place]
) -> str:
    """Topology spread, where it forbids."""
    why = "node(s) didn't match pod topology spread constraints"
    rules = [
        each
        for each in pod.spec.get("topologySpreadConstraints") or ()
        if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    if any(each["topologyKey"] not in place.labels for each in rules):
        return why
    for rule in rules:
        selector, key = _selector(rule), rule["topologyKey"]
        counts: dict[str, int] = {}
        for name, each in places.items():
            if _spreads_over(rule, rules, pod.spec, each):
                there = loads[name].pods.values() if name in loads else ()
                alike = [
                    one
                    for one in there
                    if one.namespace == pod.namespace
                    and selector is not None
                    and (selector.match_labels or selector.match_expressions)
                    and selector.holds(dict(one.labels))
                ]
                counts[each.labels[key]] = counts.get(each.labels[key], 0) + len(alike)
        least = min(counts.values(), default=0)
        if len(counts) < (rule.get("minDomains") or 1):
            least = 0
        own = selector is not None and selector.holds(dict(pod.labels))
        if counts.get(place.labels[key], 0) + own - least > rule["maxSkew"]:
            return why
    return ""


def _spreads_over(rule: Json, rules: Iterable[Json], spec: Json, place: Place) -> bool:
    if any(each["topologyKey"] not in place.labels for each in rules):
        return False
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not _selected(spec, place):
        return False
    tolerations = spec.get("tolerations") or ()
    return rule.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(
        tolerates(tolerations, taint)
        for taint in place.taints
        if taint["effect"] in ("NoSchedule", "NoExecute")
    )


def _matches(term: AntiTerm, pod: Candidate) -> bool:
    if term.selector is None or pod.namespace not in term.namespaces:
        return False
    return term.selector.holds(dict(pod.labels))


def _near(
    term: AntiTerm, place: Place, loads: Mapping[str, Load], places: Mapping[str, Place]
) -> Iterable[Candidate]:
    """The pods in the same topology domain as a node."""
    domain = place.labels.get(term.topology)
    if domain is None:
        return
    for name, load in loads.items():
        other = places.get(name)
        if load.pods and other is not None and other.labels.get(term.topology) == domain:
            yield from load.pods.values()


def score(pod: Candidate, place: Place, load: Load | None) -> float:
    """The score of a node for a pod that may run there; more is better."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred: int = sum(
        each.get("weight", 1)
        for each in affinity.get(_PREFERRED) or ()
        if term_matches(each.get("preference") or {}, place.name, place.labels)
    )
    tolerations = pod.spec.get("tolerations") or ()
    avoided = sum(
        1
        for taint in place.taints
        if taint["effect"] == "PreferNoSchedule" and not tolerates(tolerations, taint)
    )
    used = load.used if load is not None else {}
    free = 0.0
    for name in ("cpu", "memory"):
        whole = place.allocatable.get(name, 0)
        taken = used.get(name, 0) + pod.cost.get(name, 0)
        free += (whole - taken) / whole if whole else 0.0
    siblings = 0
    if load is not None and pod.owner:
        siblings = sum(1 for other in load.pods.values() if other.owner == pod.owner)
    return preferred * 2.0 - avoided * 100.0 + free * 50.0 - siblings * 100.0


def choose(
    pod: Candidate, places: Mapping[str, Place], loads: Mapping[str, Load]
) -> tuple[str, str]:
    """The best node for a pod and "", or "" and why there is none."""
    obstacles: dict[str, int] = {}
    best, best_score = "", float("-inf")
    for name in sorted(places):
        place = places[name]
        why = obstacle(pod, place, loads, places)
        if why:
            obstacles[why] = obstacles.get(why, 0) + 1
            continue
        found = score(pod, place, loads.get(name))
        if found > best_score:
            best, best_score = name, found
    return best, "" if best else explain(obstacles, len(places))


def explain(obstacles: Mapping[str, int], nodes: int) -> str:
    """The scheduler's message for a pod that fits nowhere."""
    if not nodes:
        return "no nodes available to schedule pods"
    reasons = ", ".join(f"{count} {why}" for why, count in sorted(obstacles.items()))
    return f"0/{nodes} nodes are available: {reasons}."


def untolerated(tolerations: Sequence[Json], taints: Iterable[Json]) -> float | None:
    """Seconds for which a pod may stay on a node with NoExecute taints; 0 for not at all, None for
    as long as it likes."""
    longest: float | None = None
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        found = [each for each in tolerations if covers(each, taint)]
        if not found:
            return 0.0
        bounded = [
            float(each["tolerationSeconds"])
            for each in found
            if each.get("tolerationSeconds") is not None
        ]
        if bounded:
            stay = max(0.0, min(bounded))
            longest = stay if longest is None else min(longest, stay)
    return longest
