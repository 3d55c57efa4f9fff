"""Explains the nodes that would have a pod, and changes nothing.

The objects are read once, and judged by the functions that the webhook and the reflection use
(:mod:`liqod.model.objects.explanation`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLAIMS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Kind,
)
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.overridepolicies import overrides_of
from liqod.consumer.slices.sliceobjects import providers_of
from liqod.errors import Misuse, NotFound
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.crossing.exclusions import namespace_stays
from liqod.model.objects import (
    companions,
    explanation,
    nodefilters,
    replicagroups,
    returnmarks,
    volumeclaims,
)
from liqod.model.objects.companions import Companions, VolumeNeed
from liqod.model.objects.eligibility import Placement, changed_there
from liqod.model.objects.nodefilters import NodeFacts
from liqod.model.objects.replicagroups import Replicas
from liqod.model.text import printable
from liqod.model.view.podanswer import NodeAnswer, PodAnswer
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.dryrun import differences
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    OVERRIDE_POLICIES,
    RESOURCE_SLICES,
    NamespaceMap,
    NamespaceOffloading,
)

Json = dict[str, Any]

STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
JOBS: Final = Kind("batch", "v1", "Job", "jobs")
WORKLOADS: Final = (DEPLOYMENTS, STATEFUL_SETS, JOBS, REPLICA_SETS)
"""The kinds whose pods are made of a template."""
READ: Final = (NAMESPACE_OFFLOADINGS, NAMESPACE_MAPS, OVERRIDE_POLICIES, RESOURCE_SLICES)


def kind_of(word: str) -> Kind:
    """The kind that a word of a command line means. Raises Misuse: none that has pods."""
    for kind in (PODS, *WORKLOADS):
        if word.lower() in (kind.name.lower(), kind.plural):
            return kind
    known = ", ".join(each.name.lower() for each in (PODS, *WORKLOADS))
    raise Misuse(
        f"{word!r} has no pods that are explained; these have: {known}, "
        "node, service, serviceimport"
    )


def pod_in(body: Mapping[str, Any], namespace: str) -> Json:
    """The pod that an object is, or that is made of its template.

    Raises:
        Misuse: it has none.
    """
    if body.get("kind") == PODS.name:
        return {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    kind = kind_of(str(body.get("kind")))
    template = (body.get("spec") or {}).get("template") or {}
    meta = {"generateName": f"{body['metadata']['name']}-", **(template.get("metadata") or {})}
    owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": body["metadata"]["name"]}
    uid = body["metadata"].get("uid")
    owners = [{**owner, "uid": uid, "controller": True}] if uid else []
    made = {**meta, "namespace": namespace, "ownerReferences": owners}
    spec = template.get("spec") or {}
    first = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in _claims_in(body).items()
    ]
    return {"metadata": made, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), *first]}}


def _claims_in(body: Mapping[str, Any]) -> dict[str, Json]:
    """The claims that a StatefulSet makes for its first pod, by their volumes."""
    found = {}
    for each in (body.get("spec") or {}).get("volumeClaimTemplates") or ():
        name = each["metadata"]["name"]
        claim = f"{name}-{body['metadata']['name']}-0"
        found[name] = {**each, "metadata": {**each["metadata"], "name": claim}}
    return found


async def explain(client: Client, body: Mapping[str, Any], namespace: str, own: str) -> PodAnswer:
    """The answer about an object that has pods.

    Args:
        client: of the cluster.
        body: the object, from the cluster or from a manifest.
        namespace: its namespace.
        own: liqod's own namespace.

    Raises:
        LiqodError: the cluster cannot be read, or the pod has nonsense in it.
    """
    try:
        pod = await _controlled(client, pod_in(body, namespace), namespace)
        return await _explain(client, body, pod, own)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        name = printable(str(body["metadata"]["name"]))
        raise Misuse(f"{body['kind']} {name} is none that an API server would take") from error


async def _controlled(client: Client, pod: Json, namespace: str) -> Json:
    """The pod of a Deployment as one of its newest ReplicaSet, which marks of returns name."""
    owner = next(iter(pod["metadata"].get("ownerReferences") or ()), None)
    if owner is None or owner.get("kind") != DEPLOYMENTS.name:
        return pod
    sets = [
        each["metadata"]
        for each in await client.list(REPLICA_SETS, Selection(namespace))
        if owner in (_owned(one) for one in each["metadata"].get("ownerReferences") or ())
    ]
    if not sets:
        return pod
    newest = max(sets, key=lambda each: str(each.get("creationTimestamp") or ""))
    reference = {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.name}
    made = {**reference, "name": newest["name"], "uid": newest["uid"], "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [made]}}


def _owned(reference: Json) -> Json:
    """A reference to a controller, as :func:`pod_in` writes it."""
    return {key: each for key, each in reference.items() if key != "blockOwnerDeletion"}


async def _explain(client: Client, body: Mapping[str, Any], pod: Json, own: str) -> PodAnswer:
    namespace: str = pod["metadata"]["namespace"]
    objects = ClusterObjects()
    for kind in READ:
        for each in await client.list(kind):
            objects.put(kind, each)
    placement = _placement(objects, namespace, own)
    if placement is not None:
        made = {each["metadata"]["name"]: each for each in _claims_in(body).values()}
        placement = await _with_claims(client, placement, pod, made)
    at = mapped(objects.store(NAMESPACE_MAPS).values(NamespaceMap), namespace)
    found = explanation.explained(pod, namespace, placement, at)
    pods = await client.list(PODS)
    others = _by_node(pods, pod)
    nodes = [
        nodefilters.facts(each, others.get(each["metadata"]["name"], ()))
        for each in await client.list(NODES)
    ]
    beside = companions.companions(
        *(found.admitted, nodes, others, await _namespaces(client)),
        await _volumes(client, pod, _claims_in(body), others),
    )
    on = (pod.get("spec") or {}).get("nodeName") or ""
    answers = [_answer(found, each, placement, beside, runs=each.name == on) for each in nodes]
    return PodAnswer(
        str(body["kind"]),
        namespace,
        str(body["metadata"]["name"]),
        _waits(pod),
        tuple(sorted(answers, key=lambda each: (each.peer, each.node))),
        await _replicas(client, body, pods, nodes),
    )


async def _replicas(
    client: Client, body: Mapping[str, Any], pods: list[Json], nodes: list[NodeFacts]
) -> Replicas | None:
    meta = body["metadata"]
    if body.get("kind") == PODS.name or not meta.get("uid"):
        return None
    peers = {each.name: each.labels.get(labels.REMOTE_CLUSTER_ID, "") for each in nodes}
    sets = await client.list(REPLICA_SETS, Selection(meta["namespace"]))
    return replicagroups.replicas(body, sets, pods, peers)


def _answer(
    found: explanation.ExplainedPod,
    node: nodefilters.NodeFacts,
    placement: Placement | None,
    beside: Companions,
    *,
    runs: bool,
) -> NodeAnswer:
    peer = node.labels.get(labels.REMOTE_CLUSTER_ID, "")
    against = () if runs else tuple(explanation.refusals(found, node, beside))
    made = NodeAnswer(node.name, peer, found.mapped.get(peer, ""), runs, against)
    if not peer or placement is None:
        return made
    named = {**found.pod, "metadata": {"name": "", **found.pod["metadata"]}}
    mine = tuple(each for each in placement.overrides if each.concerns(PODS, named, peer))
    changed = differences(named, changed_there(named, mine, peer))
    return msgspec.structs.replace(
        made, policies=tuple(each.full_name for each in mine), differences=tuple(changed)
    )


def _waits(pod: Json) -> str:
    gates = [each.get("name") for each in (pod.get("spec") or {}).get("schedulingGates") or ()]
    return f"it has the scheduling gates {', '.join(map(str, gates))}" if gates else ""


def _placement(objects: ClusterObjects, namespace: str, own: str) -> Placement | None:
    """The placement of a namespace, as the webhook has it."""
    key = (namespace, labels.NAMESPACE_OFFLOADING_NAME)
    offloading = objects.get(NAMESPACE_OFFLOADINGS, key, NamespaceOffloading)
    if offloading is None or offloading.leaving or namespace_stays(namespace, {}, own):
        return None
    overrides = overrides_of(objects.store(OVERRIDE_POLICIES), own, namespace)
    providers = providers_of(objects.store(RESOURCE_SLICES))
    made = offloadplan.placement(offloading, providers, overrides)
    in_force = returnmarks.in_force(made.returned, times.now())
    return msgspec.structs.replace(made, returned=in_force)


async def _with_claims(
    client: Client, placement: Placement, pod: Json, made: Mapping[str, Json]
) -> Placement:
    """The placement with the claims of a pod: those that are there, else those to be made."""
    names = volumeclaims.names(pod)
    follows = names or volumeclaims.ephemeral(pod)
    classes = await client.list(STORAGE_CLASSES) if follows else []
    ours = [each for each in classes if each.get("provisioner") == labels.STORAGE_PROVISIONER]
    if not ours:
        return placement
    claims = {}
    for name in names:
        claim = await client.find(CLAIMS, name, pod["metadata"]["namespace"]) or made.get(name)
        if claim is not None:
            claims[name] = volumeclaims.sight(claim)
    of = str(ours[0]["metadata"]["name"])
    return msgspec.structs.replace(placement, storage_class=of, claims=claims)


def mapped(maps: Iterable[NamespaceMap], namespace: str) -> dict[str, str]:
    """The peers that have a namespace, by their ids, and its name there."""
    found = {}
    for each in maps:
        entry = each.status.current_mapping.get(namespace)
        if entry is not None and labels.REPLICATED not in each.metadata.labels:
            found[each.name] = entry.remote_namespace
    return found


async def _namespaces(client: Client) -> dict[str, dict[str, str]]:
    """The labels of all namespaces."""
    found = [each["metadata"] for each in await client.list(NAMESPACES)]
    return {each["name"]: each.get("labels") or {} for each in found}


async def _volumes(
    client: Client, pod: Json, made: Mapping[str, Json], others: Mapping[str, list[Json]]
) -> list[VolumeNeed]:
    """The needs of a pod's claims: those that are there, else those to be made."""
    new = {each["metadata"]["name"]: each for each in made.values()}
    follow = volumeclaims.ephemeral(pod)
    if not pod["metadata"].get("uid"):
        new |= follow
    names = [*volumeclaims.names(pod), *follow]
    if not names:
        return []
    classes = {each["metadata"]["name"]: each for each in await client.list(STORAGE_CLASSES)}
    default, found = volumeclaims.default_class(list(classes.values())), []
    for name in names:
        claim = await client.find(CLAIMS, name, pod["metadata"]["namespace"]) or new.get(name)
        spec = (claim or {}).get("spec") or {}
        volume = spec.get("volumeName")
        there = await client.find(VOLUMES, volume) if volume else None
        of = classes.get(spec.get("storageClassName", default))
        by_hand = (of or {}).get("provisioner") == companions.NO_PROVISIONER and there is None
        free = await client.list(VOLUMES) if by_hand else []
        need = companions.volume_need(name, claim, there, of, free)
        # Each pod of a StatefulSet has claims of its own, and the first one's stand for all.
        if name not in made and volumeclaims.ONE_POD in (spec.get("accessModes") or ()):
            user = companions.user_of(name, pod, others)
            need = msgspec.structs.replace(need, user=user)
        found.append(need)
    return found


def _by_node(pods: list[Json], pod: Json) -> dict[str, list[Json]]:
    """The other pods of the cluster, by the node that they are on."""
    uid = (pod.get("metadata") or {}).get("uid")
    found: dict[str, list[Json]] = {}
    for each in pods:
        node = each["spec"].get("nodeName")
        if node and (uid is None or each["metadata"].get("uid") != uid):
            found.setdefault(node, []).append(each)
    return found


async def read(client: Client, kind: Kind, name: str, namespace: str) -> Json:
    """The object that is asked for. Raises NotFound: it is not there."""
    found = await client.find(kind, name, namespace)
    if found is None:
        text = f"there is no {kind.name} {name} in the namespace {namespace}"
        raise NotFound(f"{text}; explain a manifest with -f before it is applied")
    return {"kind": kind.name, **found}
