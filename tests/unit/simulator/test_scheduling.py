"""Where pods may run and where best: tables of the pure scheduler."""

import pytest

from simulator.nodes.scheduling import Candidate, Load, Place, choose, covers, untolerated


def node(name="n", cpu="4", memory="8Gi", taints=(), unschedulable=False, **labels):
    return Place.of(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "3"}},
        }
    )


def pod(name="p", cpu="1", owner="", labels=None, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    owners = [{"uid": owner, "controller": True}] if owner else []
    meta = {
        "name": name,
        "namespace": "x",
        "labels": labels or {},
        "ownerReferences": owners,
    }
    return Candidate.of({"metadata": meta, "spec": {"containers": [container], **spec}})


def loads(**running):
    found = {}
    for name, pods in running.items():
        found[name] = Load()
        for each in pods:
            found[name].add(each)
    return found


TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}, True),
        ({"key": "j", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration, covered):
    assert covers(toleration, TAINT) is covered


@pytest.mark.parametrize(
    ("tolerations", "taints", "stay"),
    [
        ([], [], None),
        ([], [TAINT], 0.0),
        ([{"operator": "Exists"}], [TAINT], None),
        ([{"operator": "Exists", "tolerationSeconds": 30}], [TAINT], 30.0),
        (
            [
                {"operator": "Exists", "tolerationSeconds": 30},
                {"key": "k", "operator": "Exists", "tolerationSeconds": 5},
            ],
            [TAINT],
            5.0,
        ),
        ([], [{**TAINT, "effect": "NoSchedule"}], None),
    ],
)
def test_how_long_pods_stay(tolerations, taints, stay):
    assert untolerated(tolerations, taints) == stay


def place(candidate, *nodes, **running):
    return choose(candidate, {each.name: each for each in nodes}, loads(**running))


@pytest.mark.parametrize(
    ("candidate", "nodes", "why"),
    [
        (pod(), [], "no nodes available to schedule pods"),
        (pod(cpu="5"), [node()], "0/1 nodes are available: 1 Insufficient cpu."),
        (
            pod(),
            [node(taints=[TAINT]), node("m", unschedulable=True)],
            "0/2 nodes are available: 1 node(s) had untolerated taint {k: v}, 1 node(s) were"
            " unschedulable.",
        ),
        (
            pod(nodeSelector={"a": "b"}),
            [node()],
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
def test_why_not(candidate, nodes, why):
    assert place(candidate, *nodes) == ("", why)


def test_full_of_pods():
    few = [pod(str(number), cpu="0") for number in range(3)]
    assert place(pod(cpu="0"), node(), n=few)[1] == "0/1 nodes are available: 1 Too many pods."


def test_emptier_node_is_better():
    assert place(pod(), node("a"), node("b"), a=[pod("other", "2")])[0] == "b"
    assert place(pod(), node("a", cpu="4"), node("b", cpu="40"))[0] == "b"


def test_siblings_are_spread():
    running = {"b": [pod("one", owner="u")]}
    assert place(pod(owner="u"), node("a", cpu="2"), node("b", cpu="400"), **running)[0] == "a"


def affinity(kind, **fields):
    return {"affinity": {kind: fields}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_node_affinity():
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
    nodes = (node("a", cpu="100"), node("b", zone="z"))
    required = affinity("nodeAffinity", **{REQUIRED: {"nodeSelectorTerms": [term]}})
    assert place(pod(**required), *nodes)[0] == "b"
    preferred = affinity("nodeAffinity", **{PREFERRED: [{"weight": 50, "preference": term}]})
    assert place(pod(**preferred), *nodes)[0] == "b"
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    named = affinity("nodeAffinity", **{REQUIRED: {"nodeSelectorTerms": [by_name]}})
    assert place(pod(**named), *nodes)[0] == "b"


def test_pod_affinity_and_anti_affinity():
    selector = {"matchLabels": {"app": "x"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    mine = {"app": "x"}
    apart = affinity("podAntiAffinity", **{REQUIRED: [term]})
    other = pod("other", labels=mine, **apart)
    nodes = (node("a", cpu="100"), node("b"))
    assert place(pod(labels=mine, **apart), *nodes, a=[other])[0] == "b"
    assert place(pod(labels=mine), *nodes, a=[other])[0] == "b"
    beside = affinity("podAffinity", **{REQUIRED: [term]})
    assert place(pod(**beside), *nodes, b=[pod("other", labels=mine)])[0] == "b"
    assert "didn't match pod affinity rules" in place(pod(**beside), *nodes)[1]
    assert place(pod(labels=mine, **beside), *nodes)[0] == "a"


def test_avoided_taints():
    shy = {"key": "k", "effect": "PreferNoSchedule"}
    assert place(pod(), node("a", cpu="400", taints=[shy]), node("b"))[0] == "b"
    assert place(pod(), node("a", taints=[shy]))[0] == "a"
