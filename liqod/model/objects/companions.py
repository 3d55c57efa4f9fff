"""The filters of Kubernetes' scheduler that compare a pod with others and its volumes. Pure.

Pods that are there are counted once for a pod (:func:`companions`), by topology domain; then
:meth:`Companions.against` is asked for each node. The filters are required affinity and
anti-affinity of pods, its own and others', topology spread that forbids, and the nodes from which
volumes can be used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from liqod.model.objects import quantities, volumeclaims
from liqod.model.objects.nodefilters import NodeFacts, NodeRefusal, tainted, unselected
from liqod.model.objects.selectors import Json, labels_match, term_matches

Labels = Mapping[str, str]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes an administrator makes."""
_ENDED: Final = ("Succeeded", "Failed")


class VolumeNeed(msgspec.Struct, frozen=True):
    """The nodes from which the volume of a claim can be used.

    Attributes:
        claim: its name.
        problem: why no node has it yet; empty for none.
        terms: node selector terms, one of which has to hold; None for any node.
        user: the pod that uses it, where one pod alone may; empty for none.
    """

    claim: str
    problem: str = ""
    terms: tuple[Json, ...] | None = None
    user: str = ""


class Attraction(msgspec.Struct, frozen=True):
    """A required term of pod affinity: the domains that have pods which fit all terms."""

    key: str
    domains: frozenset[str]


class Repulsion(msgspec.Struct, frozen=True):
    """The domains of one topology key that a pod has to be apart from, and the pods in them.

    Attributes:
        theirs: true where those pods ask for it.
    """

    key: str
    domains: Mapping[str, str]
    theirs: bool


class Spread(msgspec.Struct, frozen=True):
    """A topology spread constraint that forbids.

    Attributes:
        key: of the domains.
        counts: the pods that count, by domain.
        least: the number in the domain with the fewest.
        own: 1 where the pod itself counts.
        most: by how much a domain may exceed the least.
    """

    key: str
    counts: Mapping[str, int]
    least: int
    own: int
    most: int


class Companions(msgspec.Struct, frozen=True):
    """All that other pods and its volumes have against nodes, for one pod.

    Attributes:
        attractions: of its affinity to pods.
        first: whether no pod fits its affinity yet, and it would fit that itself.
        repulsions: of its own and of others' anti-affinity.
        spreads: its constraints.
        volumes: its claims.
    """

    attractions: tuple[Attraction, ...] = ()
    first: bool = False
    repulsions: tuple[Repulsion, ...] = ()
    spreads: tuple[Spread, ...] = ()
    volumes: tuple[VolumeNeed, ...] = ()

    def against(self, node: NodeFacts) -> list[NodeRefusal]:
        """All reasons against a node; none where the pod may go there."""
        return [
            *self._apart(node),
            *self._beside(node),
            *self._skewed(node),
            *self._unmounted(node),
        ]

    def _apart(self, node: NodeFacts) -> Iterator[NodeRefusal]:
        for each in self.repulsions:
            domain = node.labels.get(each.key)
            other = None if domain is None else each.domains.get(domain)
            if other is not None:
                where = f"{each.key}={domain}"
                text = f"the pod is to be apart from {other}, which is in {where}"
                if each.theirs:
                    text = f"{other}, which is in {where}, is to be apart from such pods"
                whose = "that pod's" if each.theirs else "the pod's"
                yield NodeRefusal("PodAntiAffinity", text, f"change {whose} anti-affinity")

    def _beside(self, node: NodeFacts) -> Iterator[NodeRefusal]:
        for each in self.attractions:
            domain = node.labels.get(each.key)
            if domain is None:
                text = f"the pod affinity is by {each.key}, and the node has no such label"
            elif domain in each.domains or self.first:
                continue
            else:
                text = f"no pod that the pod affinity asks for is in {each.key}={domain}"
            yield NodeRefusal("PodAffinity", text, "change the pod's affinity to pods")

    def _skewed(self, node: NodeFacts) -> Iterator[NodeRefusal]:
        for each in self.spreads:
            domain = node.labels.get(each.key)
            if domain is None:
                text = f"the topology spread is by {each.key}, and the node has no such label"
            else:
                count = each.counts.get(domain, 0) + each.own
                if count - each.least <= each.most:
                    continue
                text = (
                    f"{count} such pods would be in {each.key}={domain}, and {each.least} are "
                    f"where there are fewest: the topology spread allows {each.most} more"
                )
            yield NodeRefusal("TopologySpread", text, "change the pod's topology spread")

    def _unmounted(self, node: NodeFacts) -> Iterator[NodeRefusal]:
        for each in self.volumes:
            if each.user:
                text = f"the claim {each.claim} is for one pod alone, and {each.user} uses it"
                yield NodeRefusal("VolumeInUse", text, "end that pod, or use another access mode")
            if each.problem:
                yield NodeRefusal("VolumeMissing", each.problem, "create it, or see its Events")
            elif each.terms is not None and not any(
                term_matches(term, node.name, node.labels) for term in each.terms
            ):
                text = f"the volume of the claim {each.claim} cannot be used from this node"
                yield NodeRefusal("VolumeElsewhere", text, "use another claim")


class _Other(msgspec.Struct, frozen=True):
    """Another pod that is on a node."""

    namespace: str
    name: str
    labels: Labels
    node: NodeFacts
    leaving: bool
    apart: Sequence[Json]


def companions(
    pod: Json,
    nodes: Iterable[NodeFacts],
    others: Mapping[str, Iterable[Mapping[str, Any]]],
    namespaces: Mapping[str, Labels],
    volumes: Iterable[VolumeNeed] = (),
) -> Companions:
    """The companions of a pod.

    Args:
        pod: as the scheduler sees it.
        nodes: all of the cluster.
        others: the other pods, by node.
        namespaces: the labels of each.
        volumes: of the pod's claims.
    """
    known = {each.name: each for each in nodes}
    found = [
        _other(each, known[name]) for name, there in others.items() if name in known
        for each in there if (each.get("status") or {}).get("phase") not in _ENDED
    ]  # fmt: skip
    meta, affinity = pod["metadata"], (pod.get("spec") or {}).get("affinity") or {}
    own: tuple[str, Labels] = meta.get("namespace", ""), meta.get("labels") or {}
    wanted = [_merged(each, own[1]) for each in _terms(affinity.get("podAffinity"))]

    def fits(term: Json, whose: str, it: tuple[str, Labels]) -> bool:
        return _covers(term, whose, it[0], namespaces) and labels_match(
            term.get("labelSelector"), it[1]
        )

    friends = [
        each for each in found
        if wanted and all(fits(term, own[0], (each.namespace, each.labels)) for term in wanted)
    ]  # fmt: skip
    attractions = [Attraction(key, frozenset(_domains(key, friends))) for key in map(_key, wanted)]
    repulsions = []
    for term in (_merged(each, own[1]) for each in _terms(affinity.get("podAntiAffinity"))):
        hit = [each for each in found if fits(term, own[0], (each.namespace, each.labels))]
        repulsions.append(Repulsion(_key(term), _domains(_key(term), hit), theirs=False))
    theirs: dict[str, dict[str, str]] = {}
    for each in found:
        for term in each.apart:
            if fits(term, each.namespace, own):
                theirs.setdefault(_key(term), {}).update(_domains(_key(term), [each]))
    repulsions += [Repulsion(key, domains, theirs=True) for key, domains in theirs.items()]
    return Companions(
        tuple(attractions),
        not any(each.domains for each in attractions)
        and all(fits(term, own[0], own) for term in wanted),
        tuple(each for each in repulsions if each.domains),
        tuple(_spreads(pod, list(known.values()), found)),
        tuple(volumes),
    )


def _other(pod: Mapping[str, Any], node: NodeFacts) -> _Other:
    meta, spec = pod["metadata"], pod.get("spec") or {}
    marks: Labels = meta.get("labels") or {}
    terms = _terms((spec.get("affinity") or {}).get("podAntiAffinity"))
    return _Other(
        meta.get("namespace", ""),
        f"{meta.get('namespace', '')}/{meta['name']}",
        marks,
        node,
        bool(meta.get("deletionTimestamp")),
        [_merged(each, marks) for each in terms],
    )


def _terms(affinity: Mapping[str, Any] | None) -> Sequence[Json]:
    return (affinity or {}).get(_REQUIRED) or ()


def _key(term: Json) -> str:
    return str(term.get("topologyKey", ""))


def _domains(key: str, pods: Iterable[_Other]) -> dict[str, str]:
    """The domains that have one of these pods, and the name of one in each."""
    return {each.node.labels[key]: each.name for each in pods if key in each.node.labels}


def _merged(term: Json, marks: Labels) -> Json:
    """A term or a constraint whose selector has its pod's own values of the keys that it names."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    more = [
        {"key": key, "operator": operator, "values": [marks[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in marks
    ]
    expressions = [*(selector.get("matchExpressions") or ()), *more]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


def _covers(term: Json, own: str, namespace: str, namespaces: Mapping[str, Labels]) -> bool:
    """True if a term, of a pod in the namespace `own`, speaks of pods of a namespace."""
    named, chosen = term.get("namespaces") or (), term.get("namespaceSelector")
    if not named and chosen is None:
        return namespace == own
    return namespace in named or labels_match(chosen, namespaces.get(namespace, {}))


def _spreads(pod: Json, nodes: list[NodeFacts], others: list[_Other]) -> Iterator[Spread]:
    meta, spec = pod["metadata"], pod.get("spec") or {}
    marks: Labels = meta.get("labels") or {}
    hard = [
        _merged(each, marks)
        for each in spec.get("topologySpreadConstraints") or ()
        if each.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    keys = {_key(each) for each in hard}
    complete = [each for each in nodes if keys <= each.labels.keys()]
    for each in hard:
        key, selector = _key(each), each.get("labelSelector")
        counted = {node.name for node in complete if _counts(each, spec, node)}
        counts = {node.labels[key]: 0 for node in complete if node.name in counted}
        for other in others:
            here = other.node.name in counted and other.namespace == meta.get("namespace", "")
            if here and not other.leaving and _restricts(selector, other.labels):
                counts[other.node.labels[key]] += 1
        few = len(counts) < (each.get("minDomains") or 1)
        least = 0 if few else min(counts.values())
        own = int(labels_match(selector, marks))
        yield Spread(key, counts, least, own, int(each.get("maxSkew") or 1))


def _restricts(selector: Json | None, marks: Labels) -> bool:
    """True if labels satisfy a selector that has rules: without any a scheduler counts no pod."""
    rules = (selector or {}).get("matchLabels") or (selector or {}).get("matchExpressions")
    return bool(rules) and labels_match(selector, marks)


def _counts(constraint: Json, spec: Json, node: NodeFacts) -> bool:
    """True if a node is one of those over which a constraint spreads."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and unselected(spec, node):
        return False
    by_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not (by_taints and any(True for _ in tainted(spec, node)))


def user_of(claim: str, pod: Json, others: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Another pod of a pod's namespace that uses a claim on a node; empty for none.

    Args:
        claim: its name.
        pod: the pod.
        others: the other pods, by node.
    """
    namespace = pod["metadata"].get("namespace", "")
    for each in chain.from_iterable(others.values()):
        ended = (each.get("status") or {}).get("phase") in _ENDED
        if ended or each["metadata"].get("namespace", "") != namespace:
            continue
        if claim in (*volumeclaims.names(each), *volumeclaims.ephemeral(each)):
            return f"{namespace}/{each['metadata']['name']}"
    return ""


def volume_need(
    name: str,
    claim: Mapping[str, Any] | None,
    volume: Mapping[str, Any] | None,
    storage_class: Mapping[str, Any] | None,
    free: Iterable[Mapping[str, Any]] = (),
) -> VolumeNeed:
    """The need of one claim of a pod.

    Args:
        name: of the claim.
        claim: None where there is none.
        volume: the one that it is bound to; None for none.
        storage_class: the claim's; None where there is none of that name.
        free: volumes that are there, for a class that makes none.

    Raises:
        ConfigError: a size is no quantity.
    """
    if claim is None:
        return VolumeNeed(name, f"there is no claim {name}")
    bound = (claim.get("spec") or {}).get("volumeName")
    if bound and volume is None:
        return VolumeNeed(name, f"there is no volume {bound}, to which the claim {name} is bound")
    if volume is not None:
        required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
        return VolumeNeed(name, terms=_alternatives(required, "nodeSelectorTerms"))
    if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return VolumeNeed(name, f"the claim {name} is bound to no volume yet")
    if storage_class.get("provisioner") == NO_PROVISIONER:
        fitting = [each for each in free if _takes(each, claim)]
        if not fitting:
            return VolumeNeed(name, f"no volume is free that the claim {name} could have")
        required = [(each["spec"].get("nodeAffinity") or {}).get("required") for each in fitting]
        parts = [_alternatives(each, "nodeSelectorTerms") for each in required]
        anywhere = any(each is None for each in parts)
        return VolumeNeed(name, terms=None if anywhere else tuple(chain(*filter(None, parts))))
    allowed = storage_class.get("allowedTopologies") or ()
    terms = tuple(
        {
            "matchExpressions": [
                {"key": one["key"], "operator": "In", "values": one["values"]}
                for one in each.get("matchLabelExpressions") or ()
            ]
        }
        for each in allowed
    )
    return VolumeNeed(name, terms=terms or None)


def _takes(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """True if a claim may be bound to a volume that no other claim has."""
    has, wants = volume.get("spec") or {}, claim.get("spec") or {}
    known = has.get("claimRef") or {}
    other = known and known.get("name") != (claim.get("metadata") or {}).get("name")
    size, asked = has.get("capacity") or {}, (wants.get("resources") or {}).get("requests") or {}
    alike = all(
        has.get(field, default) == wants.get(field, default)
        for field, default in (("storageClassName", ""), ("volumeMode", "Filesystem"))
    )
    large = quantities.parse(size.get("storage", 0)) >= quantities.parse(asked.get("storage", 0))
    modes = set(wants.get("accessModes") or ()) <= set(has.get("accessModes") or ())
    marks = (volume.get("metadata") or {}).get("labels") or {}
    chosen = "selector" not in wants or labels_match(wants["selector"], marks)
    return not other and alike and large and modes and chosen


def _alternatives(required: Mapping[str, Any] | None, field: str) -> tuple[Json, ...] | None:
    return None if required is None else tuple(required.get(field) or ())
