"""With what grace a pod is to end, told across clusters."""

import pytest

from liqod.model.crossing.graces import note, noted, requested_grace


@pytest.mark.parametrize(
    ("own", "given", "phase", "expected"),
    [
        (30, 30, "Running", None),
        (None, 30, "Running", None),
        (-1, 1, "Running", None),
        (30, 2, "Running", 2),
        (30, 300, "Running", 300),
        (None, 0, "Pending", 0),
        (30, 0, "Succeeded", None),
        (30, None, "Running", None),
    ],
)
def test_only_another_grace_than_the_pods_own_is_told(own, given, phase, expected):
    meta = {"deletionTimestamp": "2026-11-21T02:00:00Z", "deletionGracePeriodSeconds": given}
    spec = {} if own is None else {"terminationGracePeriodSeconds": own}
    assert requested_grace({"metadata": meta, "spec": spec, "status": {"phase": phase}}) == expected


def test_a_pod_that_is_not_deleted_asks_for_nothing():
    assert requested_grace({"metadata": {"name": "web"}, "spec": {}}) is None


def test_what_is_noted_is_read():
    assert noted(note(7)) == 7
    assert noted({}) is None
