"""The ledger, fed with ShadowPods and Quotas as they are in the stores."""

from typing import Any

import msgspec
import pytest

from liqod.kube.cache.store import StoreChange
from liqod.model import ids
from liqod.model.peering.quotadecision import CORDONED, LIMITS_NOT_SET, OVER_QUOTA, UNKNOWN_USER
from liqod.provider.slices.ledger import QuotaLedger
from liqod.provider.workloads.shadow import Shadow

USER = ids.slice_user("milan", "rome")
KEY = ("shop-rome", "web-1")
STATED = {"requests": {"cpu": "1", "memory": "1Gi"}}


def shadow(resources: Any = None, **labels: str) -> Shadow:
    pod = {"containers": [{"name": "web", "resources": resources or {}}]}
    metadata = {"name": "web-1", "namespace": "shop-rome", "labels": labels}
    body = {"metadata": metadata, "spec": {"pod": pod}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Shadow)


def quota(user: str = USER, **spec: Any) -> bytes:
    spec = {"user": user, "resources": {"cpu": "2", "memory": "4Gi", "pods": "10"}, **spec}
    return msgspec.json.encode({"metadata": {"name": user, "namespace": "t"}, "spec": spec})


def books(*quotas: bytes) -> QuotaLedger:
    made = QuotaLedger("rome")
    for one in quotas:
        made.quota_changed(StoreChange(("t", "q"), None, one))
    return made


CREATOR = {"liqo.io/creator-user": USER}
UNGRANTED = {"liqo.io/creator-user": ids.slice_user("gone", "rome")}
NODE = {"offloading.liqo.io/nodename": "milan"}


@pytest.mark.parametrize("labels", [CREATOR, NODE])
def test_a_pod_is_booked_on_its_creator_or_else_on_the_slice_of_its_node(labels):
    made = books(quota(cordoned=True), quota("other"))
    assert made.book(KEY, shadow(STATED, **labels)).reason == CORDONED
    assert made.book(KEY, shadow(STATED)).admitted


def test_a_creator_that_was_granted_nothing():
    assert books(quota()).book(KEY, shadow(STATED, **UNGRANTED)).reason == UNKNOWN_USER


def test_a_creator_of_a_consumers_own_guest_means_nobody_here():
    """A Liqo that passes on what runs there for another cluster copies the label."""
    copied = {"liqo.io/creator-user": ids.slice_user("milan", "turin")}
    made = books(quota(cordoned=True), quota("other"))
    assert made.book(KEY, shadow(STATED, **copied, **NODE)).reason == CORDONED


@pytest.mark.parametrize(
    ("mode", "resources", "admitted"),
    [
        ("None", {}, True),
        ("Soft", {}, False),
        ("Soft", STATED, True),
        ("Hard", STATED, False),
        ("Hard", {**STATED, "limits": STATED["requests"]}, True),
    ],
)
def test_enforcement(mode: str, resources: Any, admitted: bool):
    verdict = books(quota(limitsEnforcement=mode)).book(KEY, shadow(resources, **CREATOR))
    assert verdict.admitted == admitted
    assert admitted or verdict.reason == LIMITS_NOT_SET


def test_a_quota_that_changes_its_user_or_goes():
    made = books(quota())
    assert made.book(KEY, shadow(STATED, **CREATOR)).admitted
    made.quota_changed(StoreChange(("t", "q"), quota(), quota("other")))
    assert made.book(("shop-rome", "web-2"), shadow(STATED, **CREATOR)).reason == UNKNOWN_USER
    made.quota_changed(StoreChange(("t", "q"), quota("other"), None))
    assert not made.book(("shop-rome", "web-3"), shadow(STATED)).admitted


def test_nonsense_is_refused_and_grants_nothing():
    assert not books(quota()).book(KEY, shadow({"requests": {"cpu": "much"}}, **CREATOR)).admitted
    made = books(quota(resources={"cpu": "much"}))
    assert not made.book(KEY, shadow(STATED, **CREATOR)).admitted


def test_what_is_freed_is_offered():
    made = books(quota())
    made.hold(KEY, shadow({"requests": {"cpu": "2"}}, **CREATOR))
    waits = ("shop-rome", "web-2")
    assert made.book(waits, shadow(STATED, **CREATOR)).reason == OVER_QUOTA
    assert made.within("shop-rome") == [KEY, waits]
    assert made.release(KEY)
    assert made.ready() == [waits]


UNNAMED = {"offloading.liqo.io/nodename": "another-name"}
SMALL = {"cpu": "2", "memory": "4Gi", "pods": "2"}


def admitted(made: QuotaLedger, number: int, **labels: str) -> int:
    keys = [("shop-rome", f"web-{each}") for each in range(number)]
    return sum(made.book(key, shadow(STATED, **labels)).admitted for key in keys)


@pytest.mark.parametrize("labels", [{}, UNNAMED])
def test_without_a_known_user_a_pod_is_held_to_the_strictest_limits(labels):
    made = books(quota(limitsEnforcement="Hard"), quota("other"))
    assert made.book(KEY, shadow({}, **labels)).reason == LIMITS_NOT_SET
    assert made.book(KEY, shadow(STATED, **labels)).reason == LIMITS_NOT_SET
    assert made.book(KEY, shadow({**STATED, "limits": STATED["requests"]}, **labels)).admitted


@pytest.mark.parametrize("labels", [{}, UNNAMED])
def test_without_a_known_user_a_pod_is_booked_on_all_slices(labels):
    assert admitted(books(quota(resources=SMALL)), 4, **labels) == 2
    assert admitted(books(quota(resources=SMALL), quota("other", resources=SMALL)), 6) == 4


def test_without_a_known_user_a_pod_gets_nothing_of_a_cordoned_slice():
    held = [quota(resources=SMALL, cordoned=True), quota("other", resources=SMALL)]
    assert admitted(books(*held), 4, **UNNAMED) == 2
    made = books(*held)
    for number in range(2):
        made.hold(("shop-rome", f"old-{number}"), shadow(STATED, **CREATOR))
    assert admitted(made, 4, **UNNAMED) == 2


def test_a_pod_that_exists_under_an_unknown_user_counts_for_its_consumer():
    made = books(quota(resources=SMALL))
    for number in range(2):
        made.hold(("shop-rome", f"old-{number}"), shadow(STATED, **UNGRANTED))
    assert admitted(made, 2, **CREATOR) == 0
