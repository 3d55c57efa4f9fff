"""The scheduler's filters that compare a pod with others and with its volumes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.objects.companions import VolumeNeed, companions, user_of, volume_need
from liqod.model.objects.nodefilters import facts
from simulator.nodes.scheduling import Candidate, Load, Place, obstacle
from tests.unit.model.test_explanation import REQUIRED, spreads, terms_of_pods

Json = dict[str, Any]
ANY = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}


@st.composite
def pods(draw, name="p"):
    """A pod that nothing but others keep from a node."""
    affinity = {
        kind: {REQUIRED: draw(terms_of_pods)}
        for kind in ("podAffinity", "podAntiAffinity")
        if draw(st.integers(0, 2)) == 0
    }
    spec: Json = {"containers": [], "affinity": affinity, "tolerations": []}
    spec["topologySpreadConstraints"] = draw(spreads)
    if draw(st.booleans()):
        spec["tolerations"] = [{"operator": "Exists"}]
    if draw(st.integers(0, 2)) == 0:
        spec["nodeSelector"] = {"pool": "x"}
    meta = {"name": name, "labels": {"app": draw(st.sampled_from("ab"))}}
    return {
        "metadata": {**meta, "namespace": draw(st.sampled_from(["shop", "other"]))},
        "spec": spec,
    }


@st.composite
def clusters(draw):
    """Nodes of two regions, and the pods on each."""
    nodes, there = [], {}
    for number in range(draw(st.integers(1, 4))):
        marks = {"region": draw(st.sampled_from(["eu", "us"])), "pool": draw(st.sampled_from("xy"))}
        if draw(st.integers(0, 3)):
            marks["host"] = str(number)
        taints = [{"key": "gpu", "effect": "NoSchedule"}] if draw(st.integers(0, 3)) == 0 else []
        status = {"allocatable": {"cpu": "100", "pods": 100}}
        meta = {"name": f"n{number}", "labels": marks}
        nodes.append({"metadata": meta, "spec": {"taints": taints}, "status": status})
        others = [draw(pods(f"o{number}-{one}")) for one in range(draw(st.integers(0, 3)))]
        there[f"n{number}"] = others
    return nodes, there


@given(pods(), clusters())
def test_others_are_compared_as_a_scheduler_does(pod, cluster):
    made, there = cluster
    places = {each["metadata"]["name"]: Place.of(each) for each in made}
    loads = {name: Load() for name in places}
    for name, others in there.items():
        for each in others:
            loads[name].add(Candidate.of(each))
    nodes = [facts(each, there[each["metadata"]["name"]]) for each in made]
    found = companions(pod, nodes, there, {})
    for node in nodes:
        told = found.against(node)
        why = obstacle(Candidate.of(pod), places[node.name], loads, places)
        if "taint" not in why and "selector" not in why:
            assert bool(told) == bool(why), (node.name, told, why)


def node(name: str, **marks: str) -> Json:
    return {"metadata": {"name": name, "labels": {"host": name, **marks}}}


def pod(name: str, namespace: str = "shop", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": spec,
    }


def apart(**term: Any) -> Json:
    whole = {"topologyKey": "host", "labelSelector": {}, **term}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [whole]}}}


def said(one: Json, others: dict[str, list[Json]], **namespaces: dict[str, str]) -> list[str]:
    """The reasons against the node a, of the nodes a and b."""
    nodes = [facts(node("a", zone="eu")), facts(node("b", zone="us"))]
    return [each.message for each in companions(one, nodes, others, namespaces).against(nodes[0])]


def test_a_selector_of_namespaces_is_of_their_labels() -> None:
    one = pod("web", **apart(namespaceSelector={"matchLabels": {"team": "x"}}))
    others = {"a": [pod("db", "data")]}
    text = "the pod is to be apart from data/db, which is in host=a"
    assert said(one, others, data={"team": "x"}) == [text]
    assert said(one, others, data={"team": "y"}) == []
    assert said(one, {"b": others["a"]}, data={"team": "x"}) == []


def test_who_is_there_may_keep_others_away() -> None:
    one = {"a": [pod("db", **apart(labelSelector={"matchLabels": {"app": "web"}}))]}
    text = "shop/db, which is in host=a, is to be apart from such pods"
    assert said(pod("web"), one) == [text]
    assert said(pod("cache"), one) == []
    one["a"][0]["status"] = {"phase": "Succeeded"}
    assert said(pod("web"), one) == []


def test_keys_of_labels_are_those_of_the_pod() -> None:
    one = pod("web", **apart(matchLabelKeys=["app"]))
    assert said(one, {"a": [pod("db")]}) == []
    assert len(said(one, {"a": [pod("web")]})) == 1
    other = pod("web", **apart(mismatchLabelKeys=["app"]))
    assert len(said(other, {"a": [pod("db")]})) == 1


def test_a_pod_that_goes_does_not_count_for_the_spread() -> None:
    rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    one = pod("web", topologySpreadConstraints=[{**rule, "labelSelector": ANY}])
    others = {"a": [pod("first")], "b": []}
    text = (
        "2 such pods would be in zone=eu, and 0 are where there are fewest: "
        "the topology spread allows 1 more"
    )
    assert said(one, others) == [text]
    # Of a selector without any rule a scheduler counts none.
    assert said(pod("web", topologySpreadConstraints=[{**rule, "labelSelector": {}}]), others) == []
    others["a"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(one, others) == []


@pytest.mark.parametrize(
    ("claim", "volume", "of", "need"),
    [
        (None, None, None, VolumeNeed("data", "there is no claim data")),
        ({"spec": {}}, None, WAITS, VolumeNeed("data")),
        ({"spec": {}}, None, {}, VolumeNeed("data", "the claim data is bound to no volume yet")),
        (
            *({"spec": {"volumeName": "v"}}, None, None),
            VolumeNeed("data", "there is no volume v, to which the claim data is bound"),
        ),
        ({"spec": {"volumeName": "v"}}, {"spec": {}}, None, VolumeNeed("data")),
        (
            {"spec": {"volumeName": "v"}},
            {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": []}]}}}},
            None,
            VolumeNeed("data", terms=({"matchFields": []},)),
        ),
        (
            {"spec": {}},
            None,
            {
                **WAITS,
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "zone", "values": ["eu"]}]}
                ],
            },
            VolumeNeed(
                "data",
                terms=(
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["eu"]}]},
                ),
            ),
        ),
    ],
)
def test_a_claim_needs_a_volume(
    claim: Json | None, volume: Json | None, of: Json | None, need: VolumeNeed
) -> None:
    assert volume_need("data", claim, volume, of) == need


def at(node: str) -> Json:
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"matchExpressions": [rule]}


def by_hand(name: str, *, node: str = "", of: str = "disks", **more: Any) -> Json:
    """A volume that an administrator has made."""
    required = {"nodeAffinity": {"required": {"nodeSelectorTerms": [at(node)]}}} if node else {}
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": of,
        **required,
        **more,
    }
    return {"metadata": {"name": name, "labels": {"disk": name}}, "spec": spec}


def needs(*nodes: str) -> VolumeNeed:
    return VolumeNeed("data", terms=tuple(map(at, nodes)))


CHOSEN = {"selector": {"matchLabels": {"disk": "b"}}}
NONE = VolumeNeed("data", "no volume is free that the claim data could have")


@pytest.mark.parametrize(
    ("volumes", "wants", "need"),
    [
        ([], {}, NONE),
        ([by_hand("a", node="n"), by_hand("b", node="m")], {}, needs("n", "m")),
        ([by_hand("a", node="n"), by_hand("b")], {}, VolumeNeed("data")),
        ([by_hand("a", node="n"), by_hand("b", node="m")], CHOSEN, needs("m")),
        ([by_hand("a", claimRef={"name": "other"})], {}, NONE),
        ([by_hand("a", claimRef={"name": "data"})], {}, VolumeNeed("data")),
        ([by_hand("a", of="tapes")], {}, NONE),
        ([by_hand("a", volumeMode="Block")], {}, NONE),
        ([by_hand("a")], {"resources": {"requests": {"storage": "6Gi"}}}, NONE),
        ([by_hand("a")], {"accessModes": ["ReadWriteMany"]}, NONE),
    ],
)  # fmt: skip
def test_a_claim_of_a_class_without_a_provisioner_needs_a_volume_that_is_there(
    volumes: list[Json], wants: Json, need: VolumeNeed
) -> None:
    asked = {"resources": {"requests": {"storage": "5Gi"}}, "accessModes": ["ReadWriteOnce"]}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "disks", **asked, **wants},
    }
    of = {**WAITS, "provisioner": "kubernetes.io/no-provisioner"}
    assert volume_need("data", claim, None, of, volumes) == need


def test_a_volume_keeps_a_pod_where_it_can_be_used() -> None:
    there = ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["us"]}]},)
    nodes = [facts(node("a", zone="eu")), facts(node("b", zone="us"))]
    found = companions(pod("web"), nodes, {}, {}, [VolumeNeed("data", terms=there)])
    [refusal] = found.against(nodes[0])
    assert refusal.reason == "VolumeElsewhere"
    assert found.against(nodes[1]) == []
    lost = companions(pod("web"), nodes, {}, {}, [VolumeNeed("data", "there is no claim data")])
    assert [each.message for each in lost.against(nodes[1])] == ["there is no claim data"]


def test_the_first_of_its_kind_may_begin_anywhere() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    beside: Json = {"affinity": {"podAffinity": {REQUIRED: [term]}}}
    assert said(pod("web", **beside), {}) == []
    text = "no pod that the pod affinity asks for is in zone=eu"
    assert said(pod("db", **beside), {}) == [text]
    assert said(pod("web", **beside), {"b": [pod("web")]}) == [text]
    nowhere: Json = {"affinity": {"podAffinity": {REQUIRED: [{**term, "topologyKey": "rack"}]}}}
    text = "the pod affinity is by rack, and the node has no such label"
    assert said(pod("web", **nowhere), {}) == [text]


@pytest.mark.parametrize(("policy", "counts"), [("Honor", False), ("Ignore", True)])
def test_a_node_with_a_taint_counts_for_the_spread_unless_that_is_honoured(
    policy: str, counts: bool
) -> None:
    rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    rule |= {"labelSelector": ANY, "nodeTaintsPolicy": policy}
    one = pod("web", topologySpreadConstraints=[rule])
    shut = {**node("b", zone="us"), "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}
    nodes = [facts(node("a", zone="eu")), facts(shut)]
    found = companions(one, nodes, {"a": [pod("first")]}, {})
    assert bool(found.against(nodes[0])) == counts


@pytest.mark.parametrize(
    "volume", [{"persistentVolumeClaim": {"claimName": "db-v"}}, {"ephemeral": {
        "volumeClaimTemplate": {"spec": {}}}}],
)  # fmt: skip
def test_a_claim_for_one_pod_alone_keeps_others_away(volume: Json) -> None:
    other = pod("db", volumes=[{"name": "v", **volume}])
    assert user_of("db-v", pod("web"), {"b": [other]}) == "shop/db"
    assert user_of("db-v", pod("web", "data"), {"b": [other]}) == ""
    assert user_of("v", pod("web"), {"b": [other]}) == ""
    ended = {**other, "status": {"phase": "Failed"}}
    assert user_of("db-v", pod("web"), {"b": [ended]}) == ""
    used = VolumeNeed("db-v", user="shop/db")
    a = facts(node("a"))
    [refusal] = companions(pod("web"), [a], {}, {}, [used]).against(a)
    assert refusal.reason == "VolumeInUse"
    assert refusal.message == "the claim db-v is for one pod alone, and shop/db uses it"
