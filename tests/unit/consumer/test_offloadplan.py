"""NamespaceOffloading: mapping and status, against the objects of a real peering and beyond."""

import msgspec
import pytest

from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.offloadplan import ClusterView, VirtualNodeView
from liqod.resources.offloading import NamespaceOffloading, RemoteNamespace

THEN, NOW = "2026-11-21T01:57:16Z", "2026-11-21T02:00:00Z"


def offloading(*, name="offloading", namespace="demo", status=None, leaving=False, **spec):
    metadata = {"name": name, "namespace": namespace, "generation": 1}
    if leaving:
        metadata["deletionTimestamp"] = NOW
    value = {"metadata": metadata, "spec": spec, "status": status or {}}
    return msgspec.convert(value, NamespaceOffloading)


def cluster(id_="lz", desired=None, current=None, **labels):
    return ClusterView(
        id=id_,
        nodes=(VirtualNodeView(id_, {"liqo.io/remote-cluster-id": id_, **labels}),),
        desired=desired or {},
        current={
            key: RemoteNamespace(remote, phase) for key, (remote, phase) in (current or {}).items()
        },
    )


def ready(outcome, id_="lz"):
    conditions = outcome.status["remoteNamespacesConditions"][id_]
    return next((c for c in conditions if c["type"] == "Ready"), None)


MAPPED = {"desired": {"demo": "demo-ly"}, "current": {"demo": ("demo-ly", "Accepted")}}


def test_status_of_a_real_peering():
    outcome = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], THEN)
    assert outcome.mapping == {}
    assert outcome.status == {
        "observedGeneration": 1,
        "offloadingPhase": "Ready",
        "remoteNamespaceName": "demo-ly",
        "remoteNamespacesConditions": {
            "lz": [
                {
                    "lastTransitionTime": THEN,
                    "message": "The remote cluster has been selected through the ClusterSelector "
                    "field",
                    "reason": "ClusterSelected",
                    "status": "True",
                    "type": "OffloadingRequired",
                },
                {
                    "lastTransitionTime": THEN,
                    "message": "Namespace correctly offloaded to the remote cluster",
                    "reason": "NamespaceCreated",
                    "status": "True",
                    "type": "Ready",
                },
            ]
        },
    }


def test_unchanged_status_is_not_written_and_keeps_its_times():
    first = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], THEN)
    again = offloading(status=first.status)
    second = offloadplan.plan(again, "ly", [cluster(**MAPPED)], NOW)
    assert offloadplan.status_patch(second, again) is None
    gone = offloadplan.plan(again, "ly", [], NOW)
    patch = offloadplan.status_patch(gone, again)
    assert patch is not None
    assert patch["status"]["remoteNamespacesConditions"] == {"lz": None}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "demo-ly"),
        ({"namespaceMappingStrategy": "EnforceSameName"}, "demo"),
        ({"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "x"}, "x"),
    ],
)
def test_names(spec, expected):
    outcome = offloadplan.plan(offloading(**spec), "ly", [cluster()], NOW)
    assert outcome.mapping == {"lz": expected}
    assert outcome.status["remoteNamespaceName"] == expected
    assert outcome.status["offloadingPhase"] == "InProgress"
    assert ready(outcome)["reason"] == "Creating"


@pytest.mark.parametrize(
    ("namespace", "spec", "reason"),
    [
        ("n" * 61, {}, "NameTooLong"),
        ("demo", {"namespaceMappingStrategy": "SelectedName"}, "NameInvalid"),
        (
            "demo",
            {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "A b"},
            "NameInvalid",
        ),
    ],
)
def test_names_that_cannot_be_are_reported_and_never_cut(namespace, spec, reason):
    outcome = offloadplan.plan(offloading(namespace=namespace, **spec), "ly", [cluster()], NOW)
    assert outcome.mapping == {}
    assert outcome.status["offloadingPhase"] == "AllFailed"
    assert outcome.status["remoteNamespaceName"] == ""
    assert ready(outcome)["reason"] == reason
    assert outcome.problem == ready(outcome)["message"]


@pytest.mark.parametrize("name", ["other-ly", "a-b-ly"])
def test_the_default_name_of_another_namespace_cannot_be_chosen(name):
    spec = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": name}
    outcome = offloadplan.plan(offloading(**spec), "ly", [cluster()], NOW)
    assert outcome.mapping == {}
    assert ready(outcome)["reason"] == "NameReserved"
    whose = name.removesuffix("-ly")
    assert f"{name} is the name there of the namespace {whose}, if that" in outcome.problem
    assert "does not end with -ly" in outcome.problem
    own = offloading(namespace=name.removesuffix("-ly"), **spec)
    assert offloadplan.plan(own, "ly", [cluster()], NOW).mapping == {"lz": name}
    had = cluster(desired={"demo": name}, current={"demo": (name, "Accepted")})
    kept = offloadplan.plan(offloading(**spec), "ly", [had], NOW)
    assert (kept.mapping, ready(kept)["reason"]) == ({}, "NamespaceCreated")


@pytest.mark.parametrize("phase", ["Accepted", "Terminating"])
@pytest.mark.parametrize("holder", ["demo", "other"])
def test_a_name_is_handed_on_once_what_had_it_is_gone(holder, phase):
    there = cluster(current={holder: ("demo-ly", phase)})
    outcome = offloadplan.plan(offloading(), "ly", [there], NOW)
    assert outcome.mapping == {}
    assert ready(outcome)["reason"] == "FormerNamespaceRemains"
    whose = "it" if holder == "demo" else "namespace other"
    assert ready(outcome)["message"] == (
        f"the namespace demo-ly that {whose} had there before is not gone yet"
    )
    assert outcome.status["offloadingPhase"] == "InProgress"
    assert offloadplan.outdone(outcome)
    gone = offloadplan.plan(offloading(status=outcome.status), "ly", [cluster()], NOW)
    assert gone.mapping == {"lz": "demo-ly"}


def test_who_lost_its_entry_by_a_mistake_goes_on_with_what_it_has():
    mapped = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], NOW)
    lost = cluster(current=MAPPED["current"])
    outcome = offloadplan.plan(offloading(status=mapped.status), "ly", [lost], NOW)
    assert outcome.mapping == {"lz": "demo-ly"}


def test_only_the_one_name_counts():
    outcome = offloadplan.plan(offloading(name="other"), "ly", [cluster(**MAPPED)], NOW)
    assert outcome.mapping == {}
    assert outcome.status["offloadingPhase"] == "AllFailed"
    leaving = offloading(name="other", leaving=True)
    assert offloadplan.plan(leaving, "ly", [cluster(**MAPPED)], NOW).mapping == {}
    assert offloadplan.plan(offloading(name="other"), "ly", [], NOW).status["offloadingPhase"] == (
        "AllFailed"
    )


def selector(key, *values):
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"clusterSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_selector():
    clusters = [cluster("milan", region="eu"), cluster("turin", region="us")]
    outcome = offloadplan.plan(offloading(**selector("region", "eu")), "rome", clusters, NOW)
    assert outcome.mapping == {"milan": "demo-rome"}
    assert ready(outcome, "turin") is None
    nothing = offloadplan.plan(offloading(**selector("region", "asia")), "rome", clusters, NOW)
    assert nothing.mapping == {}
    assert nothing.status["offloadingPhase"] == "NoClusterSelected"


def test_one_virtual_node_of_several_selects_the_cluster():
    nodes = (VirtualNodeView("a", {"region": "us"}), VirtualNodeView("b", {"region": "eu"}))
    one = ClusterView("milan", nodes)
    assert offloadplan.plan(offloading(**selector("region", "eu")), "rome", [one], NOW).mapping


def test_deselected_cluster_loses_its_mapping():
    outcome = offloadplan.plan(offloading(**selector("x", "y")), "ly", [cluster(**MAPPED)], NOW)
    assert outcome.mapping == {"lz": None}
    assert ready(outcome)["reason"] == "Terminating"


def test_leaving():
    outcome = offloadplan.plan(offloading(leaving=True), "ly", [cluster(**MAPPED)], NOW)
    assert outcome.mapping == {"lz": None}
    assert outcome.status["offloadingPhase"] == "Terminating"
    ended = offloadplan.plan(offloading(leaving=True), "ly", [cluster()], NOW)
    assert ended.mapping == {}
    assert ready(ended) is None


def test_namespace_that_exists_there_is_reported():
    refused = cluster("turin", {"demo": "demo-ly"}, {"demo": ("demo-ly", "CreationLoopBackOff")})
    some = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED), refused], NOW)
    assert some.mapping == {}
    assert some.status["offloadingPhase"] == "SomeFailed"
    assert ready(some, "turin")["reason"] == "CreationLoopBackOff"
    assert "demo-ly" in ready(some, "turin")["message"]
    assert offloadplan.plan(offloading(), "ly", [refused], NOW).status["offloadingPhase"] == (
        "AllFailed"
    )


def test_mapping_is_immutable():
    changed = offloading(namespaceMappingStrategy="EnforceSameName")
    outcome = offloadplan.plan(changed, "ly", [cluster(**MAPPED), cluster("milan")], NOW)
    assert outcome.mapping == {"milan": "demo-ly"}
    assert outcome.status["remoteNamespaceName"] == "demo-ly"
    assert ready(outcome)["reason"] == "MappingImmutable"
    assert "immutable" in outcome.problem


def test_two_namespaces_never_share_a_remote_one():
    spec = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "x"}
    outcome = offloadplan.plan(offloading(**spec), "ly", [cluster(desired={"other": "x"})], NOW)
    assert outcome.mapping == {}
    assert ready(outcome)["reason"] == "RemoteNameTaken"
    assert outcome.status["offloadingPhase"] == "AllFailed"


def test_placement():
    place = offloadplan.placement(
        offloading(podOffloadingStrategy="Remote", **selector("region", "eu"))
    )
    assert place.strategy == "Remote"
    assert len(place.terms) == 1
    assert offloadplan.placement(offloading()).terms == ()


@pytest.mark.parametrize(
    ("text", "strategy", "seconds"),
    [
        ("300", "LocalAndRemote", 300),
        ("999999999", "LocalAndRemote", 86_400),
        ("0", "LocalAndRemote", 0),
        ("-5", "LocalAndRemote", 0),
        ("5m", "LocalAndRemote", 0),
        ("9" * 5000, "LocalAndRemote", 0),
        ("\u0663", "LocalAndRemote", 0),
        ("300", "Remote", 0),
        ("300", "Local", 0),
    ],
    ids=lambda value: str(value)[:12].encode("unicode_escape").decode(),
)
def test_pods_wait_for_home_as_long_as_their_namespace_says(text, strategy, seconds):
    made = offloading(podOffloadingStrategy=strategy)
    notes = {"liqod.io/home-first": text}
    meta = msgspec.structs.replace(made.metadata, annotations=notes)
    found = offloadplan.placement(msgspec.structs.replace(made, metadata=meta))
    assert found.home_first == seconds


def test_the_name_in_use_outlives_the_map():
    first = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], THEN)
    changed = offloading(status=first.status, namespaceMappingStrategy="EnforceSameName")
    outcome = offloadplan.plan(changed, "ly", [cluster()], NOW)
    assert outcome.mapping == {"lz": "demo-ly"}
    assert outcome.status["remoteNamespaceName"] == "demo-ly"
    # Where nothing of it is left, or it never was, the spec counts.
    assert offloadplan.plan(changed, "ly", [cluster("milan")], NOW).mapping == {"milan": "demo"}
    taken = cluster(desired={"other": "demo-ly"})
    refused = offloadplan.plan(offloading(), "ly", [taken], THEN)
    again = offloading(status=refused.status, namespaceMappingStrategy="EnforceSameName")
    assert offloadplan.plan(again, "ly", [taken], NOW).mapping == {"lz": "demo"}


def test_two_that_agree_on_a_name_outvote_one_that_was_edited():
    first = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], THEN)
    edited = cluster(desired={"demo": "edited"})
    again = offloadplan.plan(offloading(status=first.status), "ly", [edited], NOW)
    assert again.mapping == {"lz": "demo-ly"}
    other = {**first.status, "remoteNamespaceName": "edited"}
    for strategy in ("DefaultName", "EnforceSameName"):
        changed = offloading(status=other, namespaceMappingStrategy=strategy)
        outcome = offloadplan.plan(changed, "ly", [cluster(**MAPPED)], NOW)
        assert outcome.mapping == {}
        assert outcome.status["remoteNamespaceName"] == "demo-ly"


def test_a_namespace_that_stays_is_not_mapped_and_what_was_mapped_comes_back():
    why = "the namespace demo cannot be offloaded: it holds this cluster's keys"
    fresh = offloadplan.plan(offloading(), "ly", [cluster()], NOW, stays=why)
    assert (fresh.mapping, fresh.problem) == ({}, why)
    assert fresh.status["offloadingPhase"] == "AllFailed"
    assert ready(fresh)["reason"] == "NamespaceStaysHome"
    assert ready(fresh)["message"] == why
    mapped = offloadplan.plan(offloading(), "ly", [cluster(**MAPPED)], NOW, stays=why)
    assert mapped.mapping == {"lz": None}
    assert ready(mapped)["reason"] == "Terminating"
    nowhere = offloadplan.plan(offloading(), "ly", [], NOW, stays=why)
    assert nowhere.status["offloadingPhase"] == "AllFailed"
    leaving = offloadplan.plan(offloading(leaving=True), "ly", [cluster(**MAPPED)], NOW, stays=why)
    assert leaving.mapping == {"lz": None}
    assert leaving.status["offloadingPhase"] == "Terminating"
