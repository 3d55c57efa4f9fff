"""Replication as a decision, against objects of a real peering."""

import copy
from pathlib import Path

import pytest
import yaml

from liqod.consumer.replicas import ReplicaPlan, plan, replica_of
from liqod.model.objects.patches import merged

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"


def load(side, kind):
    path = next((OBJECTS / side).glob(f"cr-{kind}.*"))
    document = yaml.safe_load(path.read_text())
    return document["items"][0] if "items" in document else document


KINDS = ["resourceslices", "namespacemaps", "renews"]


def decide(source, replica):
    return plan(source, replica, namespace="liqo-tenant-ly", origin="ly")


@pytest.mark.parametrize("kind", KINDS)
def test_the_replica_is_the_one_that_liqo_makes(kind):
    source, there = load("consumer", kind), load("provider", kind)
    made = replica_of(source, "liqo-tenant-ly", "ly")
    assert made["spec"] == there["spec"]
    for key in ("name", "namespace", "labels", "annotations"):
        assert made["metadata"].get(key) == there["metadata"].get(key)


@pytest.mark.parametrize("kind", KINDS)
def test_a_peering_at_rest_needs_nothing(kind):
    assert decide(load("consumer", kind), load("provider", kind)) == ReplicaPlan()


@pytest.mark.parametrize("kind", KINDS)
def test_status_comes_back_and_spec_goes(kind):
    source, there = load("consumer", kind), load("provider", kind)
    bare = copy.deepcopy(source)
    bare.pop("status")
    assert decide(bare, there).status == there["status"]
    changed = copy.deepcopy(source)
    changed["spec"]["later"] = {"a": 1}
    patch = decide(changed, there).patch
    assert patch is not None
    assert merged(there["spec"], patch["spec"]) == changed["spec"]


def test_a_replica_without_a_status_wipes_nothing():
    source, there = load("consumer", "resourceslices"), load("provider", "resourceslices")
    there.pop("status")
    assert decide(source, there) == ReplicaPlan()


def test_without_a_source_the_replica_goes_once():
    there = load("provider", "resourceslices")
    assert decide(None, there) == ReplicaPlan(delete=there["metadata"]["uid"])
    there["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decide(None, there) == ReplicaPlan()
    assert decide(None, None) == ReplicaPlan()
    # One that is going is waited for.
    assert decide(load("consumer", "resourceslices"), there) == ReplicaPlan()


def test_local_notes_and_ownership_stay_at_home():
    source = load("consumer", "resourceslices")
    source["metadata"]["labels"]["liqo.io/ownership"] = "Local"
    source["metadata"]["annotations"] |= {
        "liqod.io/applied-hash": "x",
        "liqo.io/cordon-tenant": "true",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    made = replica_of(source, "liqo-tenant-ly", "ly")
    assert "liqo.io/ownership" not in made["metadata"]["labels"]
    assert made["metadata"]["annotations"] == {"liqo.io/create-virtual-node": "true"}
    assert "finalizers" not in made["metadata"]


FREE = "liqod.io/free-capacity"


@pytest.mark.parametrize(
    ("said", "noted"),
    [('{"groups":[]}', '{"groups":[]}'), (None, None), ("x" * 16385, "forged")],
    ids=["told", "nothing", "too-long"],
)
def test_what_is_free_counts_as_the_provider_s_own_object_says_it_and_not_as_one_writes_it_here(
    said, noted
):
    source, there = load("consumer", "resourceslices"), load("provider", "resourceslices")
    source["metadata"]["annotations"][FREE] = "forged"
    if said is not None:
        there["metadata"].setdefault("annotations", {})[FREE] = said
    notes = decide(source, there).notes or {}
    assert notes.get(FREE, "forged") == noted
    # Nor does one of this cluster's reach the provider.
    assert FREE not in replica_of(source, "liqo-tenant-ly", "ly")["metadata"]["annotations"]


def mapping(*names):
    return {"desiredMapping": {name: f"{name}-rome" for name in names}}


def test_of_a_map_only_what_was_asked_for_is_believed():
    entry = {"remoteNamespace": "shop-rome", "phase": "Accepted"}
    left = {"remoteNamespace": "left-rome", "phase": "Terminating"}
    endless = {"remoteNamespace": "x" * 5000, "phase": "Accepted"}
    others = {f"n{number}": entry for number in range(10_000)}
    metadata = {"name": "milan", "uid": "1"}
    theirs = {"currentMapping": {"shop": entry, "left": left, "bank": endless, **others}}
    status = {"currentMapping": {"left": {**left, "phase": "Accepted"}}}
    replica = {"metadata": metadata, "spec": mapping("shop", "bank"), "status": theirs}
    source = {"metadata": metadata, "spec": mapping("shop", "bank"), "status": status}
    assert decide(source, replica).status == {
        "currentMapping": {"shop": entry, "left": {"phase": "Terminating"}}
    }


def test_a_status_of_a_megabyte_is_cut_and_wipes_nothing():
    source, there = load("consumer", "resourceslices"), load("provider", "resourceslices")
    there["status"]["conditions"][0]["message"] = "x" * 1_000_000
    done = decide(source, there)
    assert done.status is not None
    assert len(str(done.status)) < 1 << 16
    assert None not in done.status.values()
    wide = {f"k{number}": "x" * 1000 for number in range(60)}
    there["status"]["conditions"][0]["message"] = ""
    there["status"]["authParams"] = {f"k{number}": wide for number in range(20)}
    assert decide(source, there) == ReplicaPlan()


def test_verdicts_and_phases_of_a_later_version_do_not_hide_the_rest():
    accepted = {"type": "Authentication", "status": "Accepted"}
    theirs = {
        "conditions": [
            accepted,
            {"type": "Resources", "status": "Deferred"},
            {"type": "Sustainability", "status": "Accepted"},
        ],
        "currentMapping": {
            "shop": {"remoteNamespace": "shop-rome", "phase": "Accepted"},
            "bank": {"remoteNamespace": "bank-rome", "phase": "Hibernating"},
        },
        "unheard": {"of": 1},
    }
    metadata = {"name": "milan", "uid": "1"}
    replica = {"metadata": metadata, "spec": {}, "status": theirs}
    source = {"metadata": metadata, "spec": mapping("shop", "bank"), "status": {}}
    done = plan(source, replica, namespace="there", origin="rome")
    assert done.status is not None
    assert done.status["conditions"] == [accepted]
    assert done.status["currentMapping"] == {
        "shop": {"remoteNamespace": "shop-rome", "phase": "Accepted"},
        "bank": {"remoteNamespace": "bank-rome", "phase": "CreationLoopBackOff"},
    }
