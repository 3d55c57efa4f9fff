"""The result of a NamespaceMap."""

import pytest

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.config import GuestSettings
from liqod.provider.namespaces import mapping

OWNER = "liqo-tenant-rome/milan"


def namespace(name, owner=OWNER, peer="rome", original="shop", leaving=False, uid=""):
    annotations = {"liqo.io/original-name": original} if original else {}
    if uid:
        annotations["liqod.io/local-uid"] = uid
    if owner:
        annotations["liqo.io/managed-by-namespace-map"] = owner
    return Partial(
        metadata=ObjectMeta(
            name=name,
            labels={"liqo.io/remote-cluster-id": peer} if peer else {},
            annotations=annotations,
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        )
    )


def plan(desired, *live, **uids):
    by_name = {each.metadata.name: each for each in live}
    return mapping.plan(desired, by_name, OWNER, "rome", "liqo", GuestSettings(), uids=uids)


def test_a_missing_namespace_is_made_and_ours_is_kept():
    [made] = plan({"shop": "shop-rome"})
    assert (made.make, made.keep, made.phase) == (True, False, "Accepted")
    [kept] = plan({"shop": "shop-rome"}, namespace("shop-rome"))
    assert (kept.make, kept.keep, kept.phase) == (False, True, "Accepted")
    [going] = plan({"shop": "shop-rome"}, namespace("shop-rome", leaving=True))
    assert (going.make, going.keep, going.phase) == (False, False, "Terminating")


@pytest.mark.parametrize(
    "live",
    [
        namespace("shop-rome", owner=""),
        namespace("shop-rome", owner="liqo-tenant-turin/milan", peer="turin"),
        namespace("shop-rome", owner=OWNER, peer=""),
        namespace("shop-rome", owner=OWNER, peer="turin"),
    ],
)
def test_one_that_is_not_ours_is_left_alone(live):
    [step] = plan({"shop": "shop-rome"}, live)
    assert step.phase == "CreationLoopBackOff"
    assert not step.make
    assert not step.keep
    assert "exists already" in step.reason


@pytest.mark.parametrize(
    "name",
    ["kube-system", "kube-anything", "default", "liqo", "liqo-tenant-turin", "A", "x" * 64, ""],
)
def test_some_names_nobody_gets(name):
    [step] = plan({"shop": name})
    assert step.phase == "CreationLoopBackOff"
    assert step.reason


def test_two_namespaces_do_not_share_one():
    first, second = plan({"a": "same", "b": "same"})
    assert first.make
    assert second.phase == "CreationLoopBackOff"
    assert "a is mapped to same" in second.reason


@pytest.mark.parametrize(
    ("noted", "told", "kept"),
    [("", "", True), ("", "1", True), ("1", "", True), ("1", "1", True), ("1", "2", False)],
)
def test_one_belongs_to_the_namespace_it_was_made_for_as_far_as_that_is_known(noted, told, kept):
    live, uids = namespace("shop-rome", uid=noted), {"shop": told} if told else {}
    [step] = plan({"shop": "shop-rome"}, live, **uids)
    assert (step.keep, step.phase) == (kept, "Accepted" if kept else "Terminating")
    leaving = mapping.orphans({"shop": "shop-rome"}, [live], OWNER, "rome", uids)
    assert leaving == ([] if kept else [live])
    if kept:
        marks = {"liqo.io/original-name": "shop"} | ({"liqod.io/local-uid": told} if told else {})
        assert mapping.marks(step) == marks


def test_no_other_name_inherits_what_was_made_for_one():
    live = namespace("shop-rome")
    [step] = plan({"bank": "shop-rome"}, live)
    assert (step.keep, step.make, step.phase) == (False, False, "Terminating")
    leaving = mapping.orphans({"bank": "shop-rome"}, [live], OWNER, "rome")
    assert leaving == [live]
    assert mapping.status_of([step], leaving) == {
        "shop": {"remoteNamespace": "shop-rome", "phase": "Terminating"},
        "bank": {"remoteNamespace": "shop-rome", "phase": "Terminating"},
    }
    # While both name it, whose it is keeps it, whatever their order.
    thief, owner = plan({"bank": "shop-rome", "shop": "shop-rome"}, live)
    assert (thief.phase, owner.keep) == ("CreationLoopBackOff", True)
    # One that does not say for whom it was made is whose name it has.
    [adopted] = plan({"bank": "shop-rome"}, namespace("shop-rome", original=""))
    assert adopted.keep


def test_what_the_map_no_longer_names_goes_and_shows_as_going():
    live = [namespace("shop-rome"), namespace("old-rome", original="old"), namespace("x", owner="")]
    leaving = mapping.orphans({"shop": "shop-rome"}, live, OWNER, "rome")
    assert [each.metadata.name for each in leaving] == ["old-rome"]
    status = mapping.status_of(plan({"shop": "shop-rome"}, *live), leaving)
    assert status == {
        "shop": {"remoteNamespace": "shop-rome", "phase": "Accepted"},
        "old": {"remoteNamespace": "old-rome", "phase": "Terminating"},
    }


def test_a_renamed_namespace_shows_its_new_name():
    live = [namespace("shop-rome")]
    desired = {"shop": "shop-two"}
    leaving = mapping.orphans(desired, live, OWNER, "rome")
    status = mapping.status_of(plan(desired, *live), leaving)
    assert status == {"shop": {"remoteNamespace": "shop-two", "phase": "Accepted"}}


def test_the_manifest_is_that_of_a_real_peering_with_a_security_level():
    [step] = plan({"demo": "demo-ly"})
    assert mapping.manifest(step, "liqo-tenant-ly/lz", "ly", "baseline") == {
        "metadata": {
            "name": "demo-ly",
            "labels": {
                "liqo.io/remote-cluster-id": "ly",
                "pod-security.kubernetes.io/enforce": "baseline",
            },
            "annotations": {
                "liqo.io/managed-by-namespace-map": "liqo-tenant-ly/lz",
                "liqo.io/original-name": "demo",
            },
        }
    }
