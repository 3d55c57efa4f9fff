"""An explanation of a pod's placement agrees with where it goes."""

import copy
from typing import Any

import jsonpatch
import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.model.crossing import guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.model.crossing.overrides import compiled, in_order, overridden
from liqod.model.objects import eligibility, explanation, nodefilters, podspec, scheduling
from liqod.model.objects.companions import VolumeNeed, companions
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering import sizelabels
from simulator.nodes.scheduling import Candidate, Load, Place, obstacle

EU = {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}
TAINTS = (
    {"key": "gpu", "value": "a", "effect": "NoSchedule"},
    {"key": "gpu", "effect": "PreferNoSchedule"},
    {"key": "gone", "effect": "NoExecute"},
)
PEERS = ("milan", "turin")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

tolerations = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"operator": "Exists", "tolerationSeconds": 60},
            dict(scheduling.TOLERATION),
            {**scheduling.TOLERATION, "tolerationSeconds": 60},
            {"key": "gpu", "operator": "Exists"},
            {"key": "gpu", "value": "a"},
            {"key": "gone", "operator": "Exists", "effect": "NoSchedule"},
        ]
    ),
    max_size=2,
)
terms = st.lists(
    st.sampled_from(
        [
            EU,
            {},
            {"matchExpressions": [{"key": labels.TYPE, "operator": "DoesNotExist"}]},
            {
                "matchExpressions": [
                    {"key": labels.TYPE, "operator": "In", "values": [labels.VIRTUAL_NODE_TYPE]}
                ]
            },
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        ]
    ),
    max_size=2,
)
amounts = st.sampled_from(["0", "500m", "1", "2", "8"])
GPU = "nvidia.com/gpu"
GPU_LABELS = tuple(each.label for each in sizelabels.beside(GPU))
gpu_sizes = st.tuples(
    st.sampled_from(["1", "2", "3"]), st.sampled_from(["1", "600", "2001"]), st.just("9")
)


terms_of_pods = st.lists(
    st.builds(
        lambda app, key, more: {"topologyKey": key, **app, **more},
        st.sampled_from(
            [
                *({"labelSelector": {"matchLabels": {"app": app}}} for app in "ab"),
                {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
                {"labelSelector": {}},
                {},
            ]
        ),
        st.sampled_from(["region", "host"]),
        st.sampled_from([{}, {}, {"namespaces": ["other"]}, {"namespaces": ["other", "shop"]}]),
    ),
    max_size=2,
)
spreads = st.lists(
    st.builds(
        lambda app, key, skew, more: {
            "topologyKey": key,
            "maxSkew": skew,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}} if app else {},
            **more,
        },
        st.sampled_from(["a", "b", ""]),
        st.sampled_from(["region", "host"]),
        st.integers(1, 2),
        st.sampled_from(
            [
                {},
                {"nodeTaintsPolicy": "Honor"},
                {"nodeAffinityPolicy": "Ignore"},
                {"minDomains": 2},
                {"whenUnsatisfiable": "ScheduleAnyway"},
            ]
        ),
    ),
    max_size=2,
)


@st.composite
def pods(draw):
    requests = {"cpu": draw(amounts)}
    if draw(st.integers(0, 2)) == 0:
        requests[GPU] = draw(st.sampled_from(["1", "2"]))
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        "tolerations": draw(tolerations),
    }
    if draw(st.booleans()):
        spec["nodeSelector"] = {"region": draw(st.sampled_from(["eu", "us"]))}
    if draw(st.booleans()):
        required = {"nodeSelectorTerms": draw(terms)}
        spec["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if draw(st.integers(0, 2)) == 0:
            spec.setdefault("affinity", {})[kind] = {REQUIRED: draw(terms_of_pods)}
    if draw(st.integers(0, 2)) == 0:
        spec["topologySpreadConstraints"] = draw(spreads)
    if draw(st.integers(0, 4)) == 0:
        spec["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    if draw(st.integers(0, 4)) == 0:
        spec["resourceClaims"] = [{"name": "gpu"}]
    if draw(st.integers(0, 4)) == 0:
        spec["volumes"] = [{"name": "v", "nfs": {"server": "s", "path": "/"}}]
    if draw(st.integers(0, 6)) == 0:
        spec["runtimeClassName"] = labels.RUNTIME_CLASS
    metadata: dict[str, Any] = {"name": "p", "namespace": "shop"}
    if draw(st.booleans()):
        metadata["labels"] = {"app": draw(st.sampled_from("ab"))}
    if draw(st.integers(0, 6)) == 0:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}
        ]
    elif draw(st.booleans()):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    return {"metadata": metadata, "spec": spec}


@st.composite
def nodes(draw):
    peer = draw(st.sampled_from(["", *PEERS]))
    marks = {"region": draw(st.sampled_from(["eu", "us"]))}
    if draw(st.integers(0, 3)):
        marks["host"] = draw(st.sampled_from(["1", "2", "3"]))
    taints = draw(st.lists(st.sampled_from(TAINTS), max_size=1))
    declared = draw(st.sampled_from([[], ["RestartAllContainersOnContainerExits"]]))
    if peer and draw(st.booleans()):
        marks |= {labels.LARGEST_CPU: draw(st.sampled_from(["1", "600", "2000", "2001"]))}
        if draw(st.booleans()):
            marks |= dict(zip(GPU_LABELS, draw(gpu_sizes), strict=True))
    if peer:
        marks |= {labels.TYPE: labels.VIRTUAL_NODE_TYPE, labels.REMOTE_CLUSTER_ID: peer}
        taints = [dict(scheduling.TAINT), *taints]
    return {
        "metadata": {"name": draw(st.sampled_from(["n", "m"])), "labels": marks},
        "spec": {"taints": taints, "unschedulable": draw(st.integers(0, 4)) == 0},
        "status": {
            "allocatable": {"cpu": draw(amounts), GPU: "4", "pods": draw(st.integers(0, 2))},
            "declaredFeatures": declared,
        },
    }


def mark(peer):
    since, until = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
    return ReturnMark("2", "ReplicaSet", "r", peer, "Image", "no such image", since, until)


def policy(name, **spec):
    """A policy for the pods with the label app=a, or for all."""
    meta = {"name": name, "namespace": "shop", "generation": 1}
    told = {"objects": [{"kind": "Pod"}], **spec}
    return compiled(msgspec.json.encode({"metadata": meta, "spec": told}))


overrides = st.lists(
    st.sampled_from(
        [
            policy("smaller", requests={"cpu": "500m"}),
            policy("larger", requests={"cpu": "2"}, peers=["turin"]),
            policy("labelled", objects=[{"kind": "Pod", "labels": {"app": "a"}}]),
            policy(
                "larger-a",
                objects=[{"kind": "Pod", "labels": {"app": "a"}}],
                requests={"cpu": "2"},
            ),
            policy("dropped", patch=[{"op": "remove", "path": "/spec/volumes"}]),
        ]
    ),
    max_size=2,
).map(lambda found: in_order(found, "liqo"))
rules = st.sampled_from([None, Rules(), Rules(volumes=("secret",)), Rules(machines=({"cpu": 1},))])
placements = st.builds(
    Placement,
    strategy=st.sampled_from(["Local", "Remote", "LocalAndRemote"]),
    terms=terms.map(tuple),
    providers=st.fixed_dictionaries({"milan": rules, "turin": rules}),
    returned=st.sets(st.sampled_from(PEERS)).map(lambda found: tuple(map(mark, found))),
    mapped=st.none() | st.sets(st.sampled_from(PEERS)).map(frozenset),
    room_told=st.booleans(),
    home_first=st.sampled_from([0, 0, 0, 60]),
    overrides=st.just(()) | overrides,
)


def virtual_node(peer):
    marks = {labels.TYPE: labels.VIRTUAL_NODE_TYPE, labels.REMOTE_CLUSTER_ID: peer}
    return {
        "metadata": {"name": "n", "labels": marks},
        "spec": {"taints": [dict(scheduling.TAINT)]},
        "status": {"allocatable": {"cpu": "8", "pods": 2}},
    }


@st.composite
def clusters(draw):
    """The node that is asked about, others beside it, and the pods on each by its name."""
    made = [draw(nodes()), *draw(st.lists(nodes(), max_size=2))]
    for number, node in enumerate(made[1:]):
        node["metadata"]["name"] = f"beside-{number}"
    there: dict[str, list[dict[str, Any]]] = {}
    for number in range(draw(st.integers(0, 3))):
        other, node = draw(pods()), draw(st.sampled_from(made))
        meta = {**other["metadata"], "name": f"other-{number}"}
        meta["namespace"] = draw(st.sampled_from(["shop", "shop", "other"]))
        there.setdefault(node["metadata"]["name"], []).append({**other, "metadata": meta})
    return made, there


OTHER = {"metadata": {"name": "other", "namespace": "shop"}, "spec": {"containers": []}}


def with_one(node, other):
    """A cluster of one node with one pod."""
    return [node], {node["metadata"]["name"]: [other]}


def outcome(pod, placement, cluster, volumes):
    """Whether a pod runs there: by the webhook's patch, another scheduler, and what follows."""
    patch = scheduling.mutate(pod, placement) if placement is not None else []
    admitted = jsonpatch.apply_patch(copy.deepcopy(pod), patch)
    made, there = cluster
    places = {each["metadata"]["name"]: Place.of(each) for each in made}
    loads = {}
    for name, others in there.items():
        loads[name] = Load()
        for each in others:
            loads[name].add(Candidate.of(each))
    place = places[made[0]["metadata"]["name"]]
    if obstacle(Candidate.of(admitted, volumes), place, loads, places):
        return False
    peer = place.labels.get(labels.REMOTE_CLUSTER_ID)
    if peer is None:
        return True
    if placement is None or eligibility.daemon_verdict(pod) or eligibility.obstacle(pod):
        return False  # the reflection leaves it waiting
    there = {**admitted["spec"], "runtimeClassName": podspec.remote_runtime_class(pod, {})}
    sent = {"metadata": pod["metadata"], "spec": there}
    mine = [each for each in placement.overrides if each.concerns(PODS, pod, peer)]
    changed, _ = overridden(sent, "", mine)
    return not guestrules.problems(changed["spec"], {peer: placement.providers[peer]})


@given(pods(), st.none() | placements, clusters(), st.lists(terms, max_size=1))
@example(
    {
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {
            "containers": [{"name": "c"}],
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 60}],
        },
    },
    Placement("Local", providers={"milan": None, "turin": None}),
    with_one(virtual_node("milan"), OTHER),
    [],
)
@example(
    {
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "2", "controller": True}
            ],
        },
        "spec": {"containers": [{"name": "c"}], "tolerations": [{"operator": "Exists"}]},
    },
    Placement("Remote", providers={"milan": None}, returned=(mark("milan"),)),
    with_one(virtual_node("milan"), OTHER),
    [],
)
@example(
    {
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
    },
    Placement(
        "Remote",
        providers={"milan": Rules(machines=({"cpu": 1},))},
        overrides=(policy("smaller", requests={"cpu": "500m"}),),
    ),
    with_one(virtual_node("milan"), OTHER),
    [],
)
def test_what_is_explained_is_what_happens(pod, placement, cluster, volumes):
    mapped = dict.fromkeys(PEERS, "shop-rome")
    found = explanation.explained(pod, "shop", placement, mapped)
    made, there = cluster
    facts = [nodefilters.facts(each, there.get(each["metadata"]["name"], ())) for each in made]
    needs = [VolumeNeed("data", terms=tuple(each)) for each in volumes]
    beside = companions(found.admitted, facts, there, {}, needs)
    told = explanation.refusals(found, facts[0], beside)
    assert (not told) == outcome(pod, placement, cluster, volumes), told
    assert all(each.message for each in told)
