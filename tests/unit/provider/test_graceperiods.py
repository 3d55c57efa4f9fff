"""How long a guest's pod may take to end."""

from typing import Any

import msgspec
import pytest

from liqod.kube.cache.store import StoreChange
from liqod.provider.workloads.graceperiods import GracePeriods
from liqod.provider.workloads.shadow import GuestPod

KEY = ("shop-rome", "web")


def shadow(grace: str, uid: str = "u1") -> bytes:
    meta = {"name": "web", "uid": uid, "annotations": {"liqod.io/deletion-grace": grace}}
    return msgspec.json.encode({"metadata": meta})


def pod(**meta: Any) -> GuestPod:
    owner = {"kind": "ShadowPod", "name": "web", "uid": "u1"}
    body = {
        "metadata": {"name": "web", "ownerReferences": [owner], **meta},
        "spec": {"terminationGracePeriodSeconds": 30},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=GuestPod)


GOING = {"deletionTimestamp": "2026-11-21T02:00:00Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("asked", "grace"),
    [
        ("2", 2),
        ("40", 40),
        ("9999", 60),
        ("9" * 5000, None),
        ("0", 1),
        ("-1", None),
        ("soon", None),
        ("\u0662", None),
    ],
)
def test_what_is_asked_for_is_given_within_the_cap(asked, grace):
    grace_periods = GracePeriods(60)
    grace_periods.update(StoreChange(KEY, None, shadow(asked)))
    assert grace_periods.grace(KEY, pod()) == grace


def test_it_holds_when_the_shadow_pod_has_gone_until_its_pod_has():
    grace_periods = GracePeriods(60)
    grace_periods.update(StoreChange(KEY, shadow("2"), None))
    assert grace_periods.grace(KEY, pod()) == 2
    del grace_periods.requested[KEY]
    assert grace_periods.grace(KEY, pod()) is None


def test_it_is_for_that_pod_alone():
    grace_periods = GracePeriods(60)
    grace_periods.update(StoreChange(KEY, None, shadow("2", uid="another")))
    assert grace_periods.grace(KEY, pod()) is None
    assert not grace_periods.exceeds(KEY, pod(**GOING))


def test_a_pod_that_another_deletes_more_slowly_is_deleted_again_once():
    grace_periods = GracePeriods(60)
    grace_periods.update(StoreChange(KEY, None, shadow("2")))
    assert not grace_periods.exceeds(KEY, pod())
    assert grace_periods.exceeds(KEY, pod(**GOING))
    assert not grace_periods.exceeds(KEY, pod(**{**GOING, "deletionGracePeriodSeconds": 2}))
