"""What is shown of a peer's refusals, and when they are tried again."""

import pytest

from liqod.kube.kinds import PODS
from liqod.plugins.contracts import Refusal
from liqod.reflection import troubles

FORBIDDEN = Refusal(403, "quota exceeded", PODS, True)
INVALID = Refusal(422, "spec.containers: Required", PODS, False)


def test_the_first_403_is_tried_again_at_once_and_not_shown():
    trouble = troubles.after(None, (FORBIDDEN,), "a", 100.0)
    assert trouble.shown == ()
    assert troubles.waits(trouble, "a", 100.0) == pytest.approx(troubles.FIRST)


def test_further_refusals_are_shown_and_wait_longer():
    trouble = None
    waits = []
    for _ in range(8):
        trouble = troubles.after(trouble, (FORBIDDEN,), "a", 100.0)
        waits.append(trouble.due - 100.0)
    assert trouble is not None
    assert trouble.shown == (FORBIDDEN,)
    assert waits[0] < 1 <= waits[1]
    assert 30 <= waits[-1] <= 60


def test_what_the_peer_cannot_accept_is_shown_at_once_and_not_sent_again():
    trouble = troubles.after(None, (INVALID,), "a", 100.0)
    assert trouble.shown == (INVALID,)
    assert troubles.waits(trouble, "a", 500.0) == pytest.approx(200.0)


def test_another_object_is_sent_at_once():
    trouble = troubles.after(None, (INVALID,), "a", 100.0)
    assert troubles.waits(trouble, "b", 100.0) is None
    assert troubles.after(trouble, (INVALID,), "b", 100.0).tries == 1
