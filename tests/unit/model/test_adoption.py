"""Adoption of an object that Liqo made at a peer as the copy of a local object."""

import pytest

from liqod.model.crossing.adoption import is_adopted, made_for

BORN = "2026-11-21T01:57:10Z"
BEFORE = "2026-11-21T01:57:09Z"
AFTER = "2026-11-21T01:57:11Z"


def pod(**status: str):
    return {"metadata": {"uid": "here", "creationTimestamp": BORN}, "status": status}


@pytest.mark.parametrize(
    ("local", "notes", "created", "expected"),
    [
        (pod(), {"liqod.io/local-uid": "here"}, BEFORE, True),
        (pod(startTime=AFTER), {"liqod.io/local-uid": "another"}, AFTER, False),
        (pod(), {}, AFTER, True),
        (pod(), {}, BORN, True),
        (pod(), {}, "2026-11-21T02:57:11+01:00", True),
        # The remote pod of the pod that had the name before.
        (pod(phase="Pending"), {}, BEFORE, False),
        (pod(), {}, None, False),
        # The clocks of two clusters differ; a pod that has started was started by its remote pod.
        (pod(startTime=BEFORE), {}, BEFORE, True),
    ],
)
def test_whether_a_remote_pod_stands_for_a_pod(local, notes, created, expected):
    assert made_for(local, notes, created) is expected


def test_what_is_adopted_stays_so():
    assert is_adopted({})
    assert is_adopted({"liqod.io/local-uid": "here", "liqod.io/adopted": "true"})
    assert not is_adopted({"liqod.io/local-uid": "here"})
