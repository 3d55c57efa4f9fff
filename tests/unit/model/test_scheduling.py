"""Additions of admission to pods of offloaded namespaces, case by case."""

import copy

import msgspec
import pytest

from liqod.model.objects import eligibility, scheduling
from liqod.model.objects.eligibility import Placement, decide
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.objects.scheduling import TOLERATION
from liqod.model.objects.volumeclaims import ClaimView

VIRTUAL = {"key": "liqo.io/type", "operator": "In", "values": ["virtual-node"]}
REAL = {"key": "liqo.io/type", "operator": "NotIn", "values": ["virtual-node"]}
EU = {"key": "region", "operator": "In", "values": ["eu"]}
EU_TERM = {"matchExpressions": [EU]}
EVERYTHING = {"operator": "Exists"}


def pod(**spec):
    metadata = spec.pop("metadata", {})
    return {
        "metadata": {"name": "p", "resourceVersion": "7", **metadata},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def patched(value, patch):
    value = copy.deepcopy(value)
    for step in patch:
        assert step["op"] == "add"
        *parents, last = step["path"].split("/")[1:]
        place = value
        for part in parents:
            place = place[part]
        if last == "-":
            place.append(step["value"])
        else:
            place[last.replace("~1", "/")] = step["value"]
    return value


def terms(value):
    affinity = value["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return (
        None if required is None else [t["matchExpressions"] for t in required["nodeSelectorTerms"]]
    )


@pytest.mark.parametrize(
    ("placement", "tolerated", "expected"),
    [
        (Placement(), True, None),
        (Placement("LocalAndRemote", (EU_TERM,)), True, [[EU, VIRTUAL], [REAL]]),
        (Placement("Remote"), True, [[VIRTUAL]]),
        (Placement("Remote", (EU_TERM,)), True, [[EU, VIRTUAL]]),
        (Placement("Remote", ({},)), True, [[VIRTUAL, REAL]]),
        (Placement("Local"), False, None),
        (Placement("Local", (EU_TERM,)), False, None),
    ],
)
def test_strategies(placement, tolerated, expected):
    result = patched(pod(), scheduling.mutate(pod(), placement))
    assert result["spec"].get("tolerations") == ([dict(TOLERATION)] if tolerated else None)
    assert terms(result) == expected


def test_toleration_is_appended_to_the_pods_own():
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    patch = scheduling.mutate(pod(tolerations=[own]), Placement())
    assert patch == [{"op": "add", "path": "/spec/tolerations/-", "value": dict(TOLERATION)}]


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (EVERYTHING, True),
        ({"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}, True),
        ({"key": "virtual-node.liqo.io/not-allowed", "value": "true"}, True),
        ({"key": "virtual-node.liqo.io/not-allowed", "value": "false"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerates(toleration, covers):
    assert scheduling.tolerates([toleration]) is covers


def test_alternatives_of_the_pod_are_each_narrowed():
    ssd = {"key": "disk", "operator": "Exists"}
    gpu = {"key": "gpu", "operator": "Exists"}
    own = {"nodeSelectorTerms": [{"matchExpressions": [ssd]}, {"matchExpressions": [gpu]}]}
    preferred = [{"weight": 1, "preference": EU_TERM}]
    anti: dict[str, object] = {"podAntiAffinity": {}}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": own,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        **anti,
    }
    value = pod(affinity=affinity)
    result = patched(value, scheduling.mutate(value, Placement("Remote")))
    assert terms(result) == [[ssd, VIRTUAL], [gpu, VIRTUAL]]
    node = result["spec"]["affinity"]["nodeAffinity"]
    assert node["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert "podAntiAffinity" in result["spec"]["affinity"]


def test_selector_that_matches_nothing_stays():
    nothing: object = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
    }
    value, placement = pod(affinity={"nodeAffinity": nothing}), Placement("Remote")
    assert scheduling.placed_affinity(value, placement, decide(value, placement)) is None


@pytest.mark.parametrize("placement", [Placement(), Placement("Remote", (EU_TERM,))])
@pytest.mark.parametrize(
    "value",
    [
        pod(
            metadata={
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}]
            }
        ),
        pod(runtimeClassName="liqo"),
        pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
    ],
)
def test_left_alone(value, placement):
    assert scheduling.mutate(value, placement) == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "PersistentVolumeClaim",
        ),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, "EphemeralVolume"),
        ({"resourceClaims": [{"name": "gpu"}]}, "ResourceClaim"),
    ],
)
def test_what_cannot_follow_a_pod_keeps_it_here(spec, reason):
    value = pod(**spec)
    told = patched(value, scheduling.mutate(value, Placement()))
    assert "tolerations" not in told["spec"]
    assert told["metadata"]["annotations"]["liqod.io/note"].startswith("it goes to no peer: ")
    assert scheduling.mutate(told, Placement()) == []
    assert scheduling.mutate(value, Placement("Local")) == []
    verdict = scheduling.late_verdict(value, Placement())
    assert verdict is not None
    assert verdict.reason == reason
    assert "own nodes only" in verdict.message
    assert scheduling.late_patch(value, Placement()) is None
    remote = patched(value, scheduling.mutate(value, Placement("Remote")))
    assert terms(remote) == [[VIRTUAL]]
    assert "tolerations" not in remote["spec"]
    kept = scheduling.late_verdict(value, Placement("Remote"))
    assert kept is not None
    assert "strategy Remote" in kept.message


def test_who_asks_for_the_host_is_told_that_a_peers_is_not_lent():
    value = pod(hostNetwork=True, hostIPC=True, metadata={"annotations": {"a/b": "c"}})
    told = patched(value, scheduling.mutate(value, Placement()))
    notes = told["metadata"]["annotations"]
    assert notes.pop("liqod.io/note") == (
        "at a peer it is without hostNetwork, hostIPC: a peer's host is not lent"
    )
    assert notes == {"a/b": "c"}
    assert told["spec"]["tolerations"]
    assert scheduling.mutate(value, Placement("Local")) == []


def test_pod_that_tolerates_everything_stays_off_virtual_nodes_where_it_must():
    value = pod(tolerations=[EVERYTHING])
    assert terms(patched(value, scheduling.mutate(value, Placement("Local")))) == [[REAL]]
    claim = pod(tolerations=[EVERYTHING], volumes=[{"name": "v", "ephemeral": {}}])
    assert terms(patched(claim, scheduling.mutate(claim, Placement()))) == [[REAL]]


@pytest.mark.parametrize("strategy", ["Local", "Remote", "LocalAndRemote"])
@pytest.mark.parametrize(
    "selector", [(), (EU_TERM,), (EU_TERM, {"matchExpressions": [{**EU, "values": ["us"]}]})]
)
@pytest.mark.parametrize("tolerations", [[], [EVERYTHING]])
@pytest.mark.parametrize("own", [None, [EU_TERM], [EU_TERM, {"matchExpressions": [VIRTUAL]}]])
@pytest.mark.parametrize("told", [False, True])
def test_mutation_is_idempotent(strategy, selector, tolerations, own, told):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
    value = pod(
        tolerations=tolerations, **({"affinity": {"nodeAffinity": required}} if own else {})
    )
    value["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m"}}
    placement = Placement(strategy, selector, room_told=told)
    once = patched(value, scheduling.mutate(value, placement))
    assert scheduling.mutate(once, placement) == []


def test_pods_that_wait_for_home_get_no_toleration_yet_unless_they_are_for_peers():
    placement = Placement("LocalAndRemote", (EU_TERM,), home_first=60)
    made = patched(pod(), scheduling.mutate(pod(), placement))
    assert "tolerations" not in made["spec"]
    assert terms(made) == [[EU, VIRTUAL], [REAL]]
    verdict = scheduling.late_verdict(made, placement)
    assert verdict is not None
    assert verdict.reason == "HomeFirst"
    assert scheduling.late_patch(made, placement) is None
    over = msgspec.structs.replace(placement, home_first=0)
    late = scheduling.late_patch(made, over)
    assert late is not None
    assert late["spec"] == {"tolerations": [dict(TOLERATION)]}
    for own in (
        pod(nodeSelector={"liqo.io/type": "virtual-node"}),
        pod(tolerations=[dict(TOLERATION)]),
    ):
        assert scheduling.late_verdict(own, Placement(home_first=60)) is None
        changed = patched(own, scheduling.mutate(own, Placement(home_first=60)))
        assert dict(TOLERATION) in changed["spec"]["tolerations"]


def test_daemon_bound_anyway_names_its_set_and_the_cure():
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy"}
    verdict = eligibility.daemon_verdict(pod(metadata={"ownerReferences": [owner]}))
    assert verdict is not None
    assert "DaemonSet proxy" in verdict.message
    assert "liqo.io/type NotIn [virtual-node]" in verdict.message
    assert eligibility.daemon_verdict(pod()) is None


def required(*terms):
    wanted = [{"matchExpressions": [each], "matchFields": [NAMED]} for each in terms]
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {field: {"nodeSelectorTerms": wanted}}}}


NAMED = {"key": "metadata.name", "operator": "In", "values": ["milan"]}
OTHER = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}


@pytest.mark.parametrize(
    ("spec", "comes"),
    [
        ({"nodeSelector": {"liqo.io/type": "virtual-node"}}, True),
        ({"nodeSelector": {"liqo.io/remote-cluster-id": "milan"}}, True),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, False),
        (required(VIRTUAL), True),
        (required({"key": "liqo.io/type", "operator": "Exists"}), True),
        (required({"key": "liqo.io/remote-cluster-id", "operator": "In", "values": ["x"]}), True),
        (required(VIRTUAL, OTHER), False),
        (required({**VIRTUAL, "operator": "NotIn"}), False),
        (required({**VIRTUAL, "values": ["virtual-node", "other"]}), False),
        (required(), False),
        ({}, False),
    ],
)
def test_a_daemon_sets_pod_comes_where_it_names_virtual_nodes(spec, comes):
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}
    found = eligibility.daemon_verdict(pod(metadata={"ownerReferences": [owner]}, **spec))
    assert (found is None) is comes


def test_stray_gets_its_toleration():
    own = {"key": "x", "operator": "Exists"}
    assert scheduling.late_patch(pod(tolerations=[own]), Placement()) == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"tolerations": [own, dict(TOLERATION)]},
    }
    assert scheduling.late_patch(pod(tolerations=[dict(TOLERATION)]), Placement()) is None
    assert scheduling.late_patch(pod(nodeName="n"), Placement()) is None
    assert scheduling.late_patch(pod(), Placement("Local")) is None


def test_stray_without_its_affinity_is_told_so_unless_gated():
    placement = Placement("Remote", (EU_TERM,))
    assert scheduling.late_patch(pod(), placement) is None
    verdict = scheduling.late_verdict(pod(), placement)
    assert verdict is not None
    assert verdict.reason == "AdmissionMissed"
    gated = scheduling.late_patch(pod(schedulingGates=[{"name": "g"}]), placement)
    assert gated is not None
    assert terms({"spec": gated["spec"]}) == [[EU, VIRTUAL]]
    assert gated["spec"]["tolerations"] == [dict(TOLERATION)]


def returned(*clusters, providers=("milan", "turin"), strategy="LocalAndRemote"):
    since, until = "2026-01-02T12:00:00Z", "2026-01-02T12:10:00Z"
    marks = tuple(
        ReturnMark("uid-1", "ReplicaSet", "web", each, "Unschedulable", "", since, until)
        for each in clusters
    )
    return Placement(strategy, (), dict.fromkeys(providers), returned=marks)


def owned(uid="uid-1"):
    return pod(
        metadata={"ownerReferences": [{"uid": uid, "controller": True, "kind": "ReplicaSet"}]}
    )


def avoiding(*clusters):
    return {"key": "liqo.io/remote-cluster-id", "operator": "NotIn", "values": list(clusters)}


def test_a_peer_that_could_not_start_its_controllers_pods_is_avoided():
    patch = scheduling.mutate(owned(), returned("milan"))
    assert terms(patched(owned(), patch)) == [[avoiding("milan")]]
    assert dict(TOLERATION) in patched(owned(), patch)["spec"]["tolerations"]
    other = scheduling.mutate(owned("uid-2"), returned("milan"))
    assert terms(patched(owned("uid-2"), other)) is None
    alone = pod()
    assert terms(patched(alone, scheduling.mutate(alone, returned("milan")))) is None


def test_one_with_no_other_place_than_the_avoided_peer_is_not_kept_away():
    placement = returned("milan", strategy="Remote")
    alone = msgspec.structs.replace(placement, mapped=frozenset({"milan"}))
    both = msgspec.structs.replace(placement, mapped=frozenset({"milan", "turin"}))
    # Turin lacks the namespace: it waits for the end of the mark, and has no affinity against it.
    made = patched(owned(), scheduling.mutate(owned(), alone))
    assert terms(made) == [[VIRTUAL]]
    assert "tolerations" not in made["spec"]
    assert terms(patched(owned(), scheduling.mutate(owned(), both))) == [
        [VIRTUAL, avoiding("milan")]
    ]
    everything = {**owned(), "spec": {**owned()["spec"], "tolerations": [{"operator": "Exists"}]}}
    assert terms(patched(everything, scheduling.mutate(everything, alone))) == [[VIRTUAL]]
    named = {**owned(), "spec": {**owned()["spec"], "nodeSelector": {"region": "eu"}}}
    assert terms(patched(named, scheduling.mutate(named, both))) == [[VIRTUAL]]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    stored = {**owned(), "spec": {**owned()["spec"], "volumes": [volume]}}
    for bound, expected in ((True, [[VIRTUAL]]), (False, None)):
        claims = {"data": ClaimView("liqo", bound=bound)}
        placed = msgspec.structs.replace(both, storage_class="liqo", claims=claims)
        found = terms(patched(stored, scheduling.mutate(stored, placed)))
        assert found == expected or (not bound and avoiding("milan") in found[0])


@pytest.mark.parametrize("strategy", ["LocalAndRemote", "Remote"])
def test_where_no_other_peer_is_left_a_pod_gets_no_toleration_for_now(strategy):
    placement = returned("milan", "turin", strategy=strategy)
    made = patched(owned(), scheduling.mutate(owned(), placement))
    assert "tolerations" not in made["spec"]
    # The exclusion ends, and an affinity can never be taken back: there is none.
    assert terms(made) == ([[VIRTUAL]] if strategy == "Remote" else None)
    verdict = scheduling.late_verdict(made, placement)
    assert verdict is not None
    assert verdict.reason == "Returned"
    assert "12:10" in verdict.message
    over = returned(strategy=strategy)
    late = scheduling.late_patch(made, over)
    assert late is not None
    assert late["spec"]["tolerations"] == [dict(TOLERATION)]
